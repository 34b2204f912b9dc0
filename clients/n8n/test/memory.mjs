import { setFlagsFromString } from 'v8';
import { runInNewContext } from 'vm';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc');

/** The bytes that are in use and not merely left behind. */
export function heldBytes() {
	collectGarbage();
	return process.memoryUsage().heapUsed;
}
