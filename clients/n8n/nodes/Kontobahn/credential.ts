import type {
	ICredentialsDecrypted,
	ICredentialTestFunctions,
	IDataObject,
	INodeCredentialTestResult,
} from 'n8n-workflow';

const ADDRESS = /^(https?):\/\/(\[[^\]/]+\]|[^\s/:?#@[\]]+)(?::\d+)?(?:\/[^\s?#]*)?$/i;
const NEAR = [
	/^[^.:]+$/,
	/\.(?:localhost|local|internal|lan|intranet|home\.arpa)$/i,
	/^(?:127|10)(?:\.\d+){3}$/,
	/^192\.168(?:\.\d+){2}$/,
	/^172\.(?:1[6-9]|2\d|3[01])(?:\.\d+){2}$/,
	/^100\.(?:6[4-9]|[7-9]\d|1[01]\d|12[0-7])(?:\.\d+){2}$/,
	/^\[(?:::1|f[cd][0-9a-f]*:.*|fe[89ab][0-9a-f]:.*)\]$/i,
];
const STATUSES: Record<number, string> = {
	401: 'Kontobahn does not know this key: it is mistyped, expired or revoked.',
	403: 'Kontobahn knows this key but it may not be used from here, or not any more.',
	429: 'Kontobahn has had too many calls in a short time: wait a moment and try again.',
};
const ELSEWHERE = 'What answered at this address is no Kontobahn: check the address, which has no path.';

interface FullResponse {
	statusCode: number;
	headers: IDataObject;
	body: unknown;
}

/** What is wrong with an address by itself, before a key is sent there; nothing, if it may be tried. */
export function faultOf(address: string): string | undefined {
	const found = ADDRESS.exec(address);
	if (!found) return 'This is no address: it begins with https:// and is that of your Kontobahn, without a path.';
	const [, scheme, host] = found;
	if (scheme.toLowerCase() === 'https' || NEAR.some((kind) => kind.test(host))) return undefined;
	return 'This address begins with http: the key and your figures would travel in the clear. Let it begin with https.';
}

/** Why nothing came back. */
export function failureOf(error: unknown): string {
	let code = '';
	for (let cause = error as IDataObject | undefined, depth = 0; cause && depth < 5; depth += 1) {
		if (/^Ssrf|blocked because/.test(`${String(cause.name)} ${String(cause.message)}`)) {
			return 'n8n does not allow itself to ask this address (N8N_SSRF_PROTECTION_ENABLED): have it allowed with N8N_SSRF_ALLOWED_HOSTNAMES or N8N_SSRF_ALLOWED_IP_RANGES.';
		}
		if (code === '' && typeof cause.code === 'string') code = cause.code;
		cause = cause.cause as IDataObject | undefined;
	}
	if (/CERT|SELF_SIGNED|UNABLE_TO_|ERR_TLS|EPROTO|SSL/.test(code)) {
		return `The server at this address does not prove who it is, or speaks no https (${code}): check its certificate and the address.`;
	}
	return `Nothing answers at this address${code && ` (${code})`}: check it, and that n8n can reach it. In a container, 127.0.0.1 is the container itself.`;
}

/** What an answer to the trial call means; nothing, if all is well. */
export function meaningOf({ statusCode, headers, body }: FullResponse): string | undefined {
	if (statusCode >= 300 && statusCode < 400) {
		return `This address sends n8n on to ${String(headers.location ?? 'another one')}: enter the address that is meant, mostly one with https.`;
	}
	if (STATUSES[statusCode]) return STATUSES[statusCode];
	const held = (body as IDataObject | null)?.data as IDataObject | undefined;
	if (statusCode < 300 && held?.organization !== undefined) return undefined;
	return statusCode < 500 ? ELSEWHERE : `Kontobahn, or what stands before it, is out of order (${statusCode}): try again later.`;
}

/** Tries the address and the key of a credential. Each thing that can be wrong has a sentence of its own. */
async function tried(context: ICredentialTestFunctions, { data }: ICredentialsDecrypted): Promise<string | undefined> {
	const address = String(data?.baseUrl ?? '');
	const fault = faultOf(address);
	if (fault) return fault;
	let response: FullResponse;
	try {
		response = (await context.helpers.request({
			method: 'GET',
			uri: `${address.replace(/\/+$/, '')}/v2/assistants/access`,
			qs: { quelle: 'n8n' },
			headers: { 'x-api-key': String(data?.apiKey ?? '') },
			json: true,
			simple: false,
			resolveWithFullResponse: true,
			followRedirect: false,
			timeout: 30_000,
		})) as FullResponse;
	} catch (error) {
		return failureOf(error);
	}
	return meaningOf(response);
}

export const CREDENTIAL_TEST = {
	async kontobahnApiTest(
		this: ICredentialTestFunctions,
		credential: ICredentialsDecrypted,
	): Promise<INodeCredentialTestResult> {
		const message = await tried(this, credential);
		return message ? { status: 'Error', message } : { status: 'OK', message: 'Kontobahn answers, and knows this key.' };
	},
};
