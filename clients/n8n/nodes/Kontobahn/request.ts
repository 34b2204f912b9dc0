import type {
	IDataObject,
	IExecuteFunctions,
	IHookFunctions,
	IHttpRequestMethods,
	ILoadOptionsFunctions,
	IPollFunctions,
	IWebhookFunctions,
	JsonObject,
} from 'n8n-workflow';
import { NodeApiError, sleep } from 'n8n-workflow';

import { nextPage, readJson, rowsOf } from './values';

export type Context =
	| IExecuteFunctions
	| IHookFunctions
	| ILoadOptionsFunctions
	| IPollFunctions
	| IWebhookFunctions;

export interface Call {
	method: IHttpRequestMethods;
	path: string;
	query?: Record<string, string | number | boolean>;
	headers?: Record<string, string>;
	body?: string | Buffer;
	itemIndex?: number;
}

export interface Answer {
	headers: IDataObject;
	bytes: Buffer;
}

const TRANSIENT = [409, 429, 503];
const MAX_WAITS = 3;
const MAX_WAIT_SECONDS = 60;
const REMEDIES: Record<number, string> = {
	401: 'Check the key in the credential: it may be mistyped, expired or revoked.',
	402: 'The organisation has not enough credits left; nothing was done.',
	403: 'Use a key with the scope that is missing. A key that may only read is refused whatever writes.',
	404: 'There is no such thing, or the key may not see it.',
	409: 'What is asked for contradicts what is there by now; nothing was done.',
	413: 'Send less at once.',
	429: 'Too many calls in a short time: let the workflow do less at once, or wait.',
	503: 'Something that the service depends on is down; try again later.',
};

function refusal(context: Context, status: number, answer: Answer, itemIndex?: number): NodeApiError {
	const text = answer.bytes.toString('utf8');
	let said: IDataObject = {};
	try {
		said = readJson(text) as IDataObject;
	} catch {
		said = { error: `The answer is no JSON. Is the address that of a Kontobahn? It begins: ${text.slice(0, 80)}` };
	}
	const description = [
		said.field ? `Field: ${said.field as string}.` : '',
		said.missing_scope ? `Missing scope: ${said.missing_scope as string}.` : '',
		REMEDIES[status] ?? '',
		said.request_id ? `Request: ${said.request_id as string}.` : '',
	];
	return new NodeApiError(context.getNode(), { ...said, status } as JsonObject, {
		message: String(said.error ?? `Kontobahn answered with the status ${status}`),
		description: description.filter((part) => part !== '').join(' '),
		httpCode: String(status),
		itemIndex,
	});
}

/** Makes a call with the credential, waits where the service asks to, and raises what it refuses. */
export async function send(context: Context, call: Call): Promise<Answer> {
	const { baseUrl } = await context.getCredentials<{ baseUrl: string }>('kontobahnApi');
	for (let waits = 0; ; waits += 1) {
		const full = (await context.helpers.httpRequestWithAuthentication.call(context, 'kontobahnApi', {
			method: call.method,
			url: baseUrl.replace(/\/+$/, '') + call.path,
			qs: { ...call.query, quelle: 'n8n' },
			headers: { accept: '*/*', ...call.headers },
			body: call.body,
			encoding: 'arraybuffer',
			returnFullResponse: true,
			ignoreHttpStatusErrors: true,
		})) as { statusCode: number; headers: IDataObject; body: Buffer | ArrayBuffer | string };
		const answer = { headers: full.headers, bytes: Buffer.from(full.body as Buffer) };
		if (full.statusCode < 300) return answer;
		// A refusal that names no time to wait is final; one that does may be asked again, also with the same idempotency key.
		const seconds = Number(full.headers['retry-after']);
		const isFinal = !TRANSIENT.includes(full.statusCode) || !(seconds <= MAX_WAIT_SECONDS);
		if (isFinal || waits >= MAX_WAITS) throw refusal(context, full.statusCode, answer, call.itemIndex);
		await sleep(Math.max(seconds, 0.2) * 1000);
	}
}

export async function sendForJson(context: Context, call: Call): Promise<unknown> {
	const { bytes } = await send(context, call);
	return bytes.length === 0 ? {} : readJson(bytes.toString('utf8'));
}

/** The rows of all pages, up to as many as are wanted. Of a page only what is kept of its rows stays in memory. */
export async function allRows<Kept>(
	context: Context,
	call: Call,
	keep: (row: IDataObject) => Kept,
	wanted = Infinity,
): Promise<Kept[]> {
	const rows: Kept[] = [];
	let query: Call['query'] | undefined = call.query ?? {};
	while (query !== undefined && rows.length < wanted) {
		const { headers, bytes } = await send(context, { ...call, query });
		for (const row of rowsOf(readJson(bytes.toString('utf8')))) rows.push(keep(row));
		query = nextPage(headers.link);
	}
	return rows.length > wanted ? rows.slice(0, wanted) : rows;
}
