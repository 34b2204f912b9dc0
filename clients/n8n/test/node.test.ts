import type { IDataObject, INodeExecutionData } from 'n8n-workflow';
import { afterEach, describe, expect, it, vi } from 'vitest';

import { Kontobahn } from '../nodes/Kontobahn/Kontobahn.node';
import { send } from '../nodes/Kontobahn/request';
import { LIST_SEARCH } from '../nodes/Kontobahn/search';
import { heldBytes } from './memory.mjs';
import type { Reply } from './service';
import { contextOf, Service } from './service';

const PAYMENT = {
	resource: 'payment',
	operation: 'create',
	account_id: { __rl: true, mode: 'id', value: '1' },
	amount: '1234567.10',
	creditor_name: 'Muster GmbH',
	creditor_iban: 'DE02120300000000202051',
	description: 'RE-1',
};
const ROWS = { resource: 'transaction', operation: 'getMany', account_id: { value: '1' } };

async function run(service: Service, parameters: IDataObject, more: object = {}): Promise<INodeExecutionData[]> {
	const [found] = await new Kontobahn().execute.call(contextOf(service, parameters, more));
	return found;
}

const keyOf = (service: Service, number = 0) => (service.asked[number].headers as IDataObject)['idempotency-key'];

async function keyWith(more: object): Promise<unknown> {
	const service = new Service(() => ({}));
	await run(service, PAYMENT, more);
	return keyOf(service, 0);
}

describe('a call', () => {
	afterEach(() => {
		vi.useRealTimers();
	});

	it('goes to the address of the credential, and says that n8n asks', async () => {
		const service = new Service(() => ({ body: '{"data":{"id":"9"}}' }));
		await run(service, { resource: 'payment', operation: 'get', id: { value: 'a/b?c' } });
		expect(service.calls).toEqual(['GET /v2/banking/payments/a%2Fb%3Fc']);
		expect(service.asked[0].qs).toMatchObject({ quelle: 'n8n' });
		expect(keyOf(service)).toBeUndefined();
	});

	it('carries an amount digit by digit, and says that nothing is paid yet', async () => {
		const service = new Service(() => ({ body: '{"data":{"id":"9","amount":1234567.10}}' }));
		const [made] = await run(service, PAYMENT);
		expect(service.asked[0].body).toContain('"amount":1234567.10,');
		expect(made.json).toMatchObject({ id: '9', amount: '1234567.10', note: expect.stringContaining('Nothing is paid') });
	});

	it('is not made while a field is missing', async () => {
		const service = new Service(() => ({}));
		await expect(run(service, { ...PAYMENT, amount: '' })).rejects.toThrow('Amount is missing');
		await expect(run(service, { ...PAYMENT, account_id: { value: '' } })).rejects.toThrow('Account is missing');
		expect(service.asked).toEqual([]);
	});

	it.each([409, 429, 503])('is made again after the time that a %i names, at most three times', async (statusCode) => {
		vi.useFakeTimers({ now: 0 });
		const service = new Service(() => ({ statusCode, headers: { 'retry-after': '7' } }));
		const refused = expect(send(contextOf(service, {}), { method: 'GET', path: '/' })).rejects.toThrow();
		await vi.runAllTimersAsync();
		await refused;
		expect(service.asked.length).toBe(4);
		expect(Date.now()).toBe(21_000);
	});

	it.each<Reply>([
		{ statusCode: 409 },
		{ statusCode: 503, headers: { 'retry-after': 'Wed, 18 Nov 2026 00:00:00 GMT' } },
		{ statusCode: 429, headers: { 'retry-after': '61' } },
		{ statusCode: 500, headers: { 'retry-after': '1' } },
		{ statusCode: 402, headers: { 'retry-after': '1' } },
	])('is not made again after a refusal that is final: %o', async (reply) => {
		const service = new Service(() => reply);
		await expect(send(contextOf(service, {}), { method: 'GET', path: '/' })).rejects.toThrow();
		expect(service.asked.length).toBe(1);
	});

	it('passes on what was refused, why, and what to do', async () => {
		const body = '{"error":"No.","field":"amount","missing_scope":"payments","request_id":"r1"}';
		const service = new Service(() => ({ statusCode: 403, body }));
		await expect(run(service, PAYMENT)).rejects.toMatchObject({
			message: 'No.',
			httpCode: '403',
			description: expect.stringMatching(/^Field: amount\. Missing scope: payments\. Use a key .* Request: r1\.$/),
		});
	});

	it('says so where something else than a Kontobahn answers', async () => {
		const service = new Service(() => ({ statusCode: 502, body: '<html>Bad gateway' }));
		await expect(run(service, PAYMENT)).rejects.toThrow(/no JSON.*<html>Bad gateway/);
	});
});

describe('a list', () => {
	const pages = (asked: { qs?: IDataObject }): Reply => {
		const first = Number(asked.qs?.from_id ?? 0);
		const rows = [0, 1, 2].map((number) => ({ id: String(first + number), amount: 1, extra: {}, other: 'x' }));
		const link = `<https://x/v2?from_id=${first + 3}&limit=3>; rel="next"`;
		return { headers: first < 6 ? { link } : {}, body: JSON.stringify({ data: rows }) };
	};

	it('follows the pages to the end, if all are wanted', async () => {
		const service = new Service(pages);
		const found = await run(service, { ...ROWS, returnAll: true });
		expect(found.map(({ json }) => json.id)).toEqual(['0', '1', '2', '3', '4', '5', '6', '7', '8']);
		expect(service.asked.map(({ qs }) => qs)).toEqual([
			{ limit: 2000, account_id: '1', quelle: 'n8n' },
			{ limit: '3', from_id: '3', quelle: 'n8n' },
			{ limit: '3', from_id: '6', quelle: 'n8n' },
		]);
	});

	it('reads no more pages than are needed, and gives no more rows than were asked for', async () => {
		const service = new Service(pages);
		expect((await run(service, { ...ROWS, limit: 4 })).length).toBe(4);
		expect(service.asked.length).toBe(2);
		expect(service.asked[0].qs).toMatchObject({ limit: 4 });
	});

	it('keeps of each page only what is wanted of its rows, however many pages there are', async () => {
		const [size, last, held] = [200, 12, [] as number[]];
		const long = (id: number) => ({ id: String(id), amount: 1, extra: {}, other: `${id} `.repeat(2000) });
		const service = new Service((_, number) => {
			held.push(heldBytes());
			const rows = Array.from({ length: size }, (_one, place) => long(1000 + number * size + place));
			const link = `<https://x/v2?from_id=${number}>; rel="next"`;
			return { headers: number < last ? { link } : {}, body: JSON.stringify({ data: rows }) };
		});
		const found = await run(service, { ...ROWS, returnAll: true });
		expect(new Set(found.map(({ json }) => json.id)).size).toBe(size * (last + 1));
		// From the third page on: by then everything that is made once has been made.
		expect((held[last] - held[2]) / (size * (last - 2))).toBeLessThan(1000);
	});

	it('is simplified unless that is switched off', async () => {
		const [simple] = await run(new Service(pages), { ...ROWS, limit: 1 });
		const [whole] = await run(new Service(pages), { ...ROWS, limit: 1, simplify: false });
		expect([simple.json.other, whole.json.other]).toEqual([undefined, 'x']);
	});

	it('warns where the service lists only so many and has no further page', async () => {
		const [hints, rows] = [vi.fn(), Array.from({ length: 1000 }, (_, id) => ({ id }))];
		const service = new Service((_, number) => ({ body: JSON.stringify({ data: rows.slice(number) }) }));
		const wanted = { resource: 'orderFile', operation: 'getMany', returnAll: true };
		await run(service, wanted, { addExecutionHints: hints });
		await run(service, wanted, { addExecutionHints: hints });
		expect(hints.mock.calls).toEqual([[{ message: expect.stringContaining('at most 1000'), location: 'outputPane' }]]);
	});
});

describe('the key of a step', () => {
	it('stays when n8n repeats the step or a person retries the execution', async () => {
		expect(await keyWith({ getExecutionId: () => '2' })).toBe(await keyWith({}));
		expect(await keyWith({})).toMatch(/^n8n-/);
	});

	it.each([
		['execution', { getExecutionContext: () => ({ establishedAt: 2 }) }],
		['input', { getInputData: () => [{ json: { invoice: 2 } }] }],
		['node', { getNode: () => ({ id: 'other' }) }],
		['run', { getWorkflowDataProxy: () => ({ $runIndex: 1 }) }],
		['workflow', { getWorkflow: () => ({ id: 'other' }) }],
		['n8n', { getInstanceId: () => 'other' }],
	])('is another one for another %s', async (_, other) => {
		expect(await keyWith(other)).not.toBe(await keyWith({}));
	});

	it('is another one for each item', async () => {
		const service = new Service(() => ({}));
		await run(service, PAYMENT, { getInputData: () => [{ json: {} }, { json: {} }] });
		expect(keyOf(service, 0)).not.toBe(keyOf(service, 1));
	});

	it('is that of the execution where n8n has no context of it', async () => {
		const old = { getExecutionContext: undefined };
		expect(await keyWith({ ...old, getExecutionId: () => '2' })).not.toBe(await keyWith(old));
		expect(await keyWith({ ...old, getExecutionId: () => undefined })).toBeUndefined();
	});

	it('is the one that was chosen', async () => {
		const service = new Service(() => ({}));
		await run(service, { ...PAYMENT, additionalFields: { idempotencyKey: 'RE-1' } });
		expect(keyOf(service)).toBe('RE-1');
	});
});

describe('a refused item', () => {
	const items = [{ json: { of: 1 } }, { json: { of: 2 } }, { json: { of: 3 } }];
	const second = () =>
		new Service((_, number) => (number === 1 ? { statusCode: 400, body: '{"error":"No."}' } : { body: '{"data":{"id":"9"}}' }));

	it('stays in its place, with what came in and what was wrong', async () => {
		const found = await run(second(), PAYMENT, { getInputData: () => items, continueOnFail: () => true });
		expect(found.map(({ pairedItem }) => pairedItem)).toEqual([{ item: 0 }, { item: 1 }, { item: 2 }]);
		expect(found[1].json).toMatchObject({ of: 2, error: 'No.' });
		expect(found[1].error).toBeUndefined();
		expect(found[2].json).toMatchObject({ id: '9' });
	});

	it('ends the run if errors are not to be passed', async () => {
		const service = second();
		await expect(run(service, PAYMENT, { getInputData: () => items })).rejects.toThrow('No.');
		expect(service.asked.length).toBe(2);
	});

	it('goes to the output for errors where there is one', async () => {
		const getNode = () => ({ id: 'node', onError: 'continueErrorOutput' });
		const found = await run(second(), PAYMENT, { getInputData: () => items, continueOnFail: () => true, getNode });
		expect(found[1].error?.message).toBe('No.');
	});

	it('is told to the model if an agent asks', async () => {
		const found = await run(second(), PAYMENT, { getInputData: () => items, isToolExecution: () => true });
		expect(found[1].json.error).toBe('No.');
	});
});

describe('a file', () => {
	it('goes in byte for byte, with its name', async () => {
		const [service, bytes] = [new Service(() => ({})), Buffer.from([0, 255, 10])];
		const helpers = {
			httpRequestWithAuthentication: service.answer,
			assertBinaryData: () => ({ fileName: 'Auszug ä.sta' }),
			getBinaryDataBuffer: async () => bytes,
		};
		await run(service, { resource: 'bankStatement', operation: 'import', binaryPropertyName: 'data' }, { helpers });
		expect(service.asked[0].body).toBe(bytes);
		expect(service.asked[0].headers).toMatchObject({
			'content-type': 'application/octet-stream',
			'content-disposition': "attachment; filename*=UTF-8''Auszug%20%C3%A4.sta",
		});
	});

	it('comes out byte for byte, with its name and kind', async () => {
		const bytes = Buffer.from([0, 255, 10]);
		const headers = { 'content-type': 'application/xml; charset=utf-8', 'content-disposition': 'attachment; filename="a.xml"' };
		const service = new Service(() => ({ headers, body: bytes }));
		const prepareBinaryData = vi.fn(async () => ({ data: 'kept' }));
		const helpers = { httpRequestWithAuthentication: service.answer, prepareBinaryData };
		const wanted = { resource: 'payment', operation: 'downloadOrder', id: { value: '1' }, outputPropertyName: 'order' };
		const [found] = await run(service, wanted, { helpers });
		expect(prepareBinaryData).toHaveBeenCalledWith(bytes, 'a.xml', 'application/xml');
		expect(found).toMatchObject({ json: { file_name: 'a.xml', bytes: 3 }, binary: { order: { data: 'kept' } } });
	});
});

describe('a list of choices', () => {
	it('is free, and asks for what stands in other fields', async () => {
		const service = new Service(() => ({ body: '{"data":[{"bezeichnung":"Kasse"}]}' }));
		const parameters = { connectionId: { value: 'c1' }, 'additionalFields.clientId': '1001-1' };
		const found = await LIST_SEARCH.cashBooks.call(contextOf(service, parameters), 'kas');
		expect(found.results).toEqual([{ name: 'Kasse', value: 'Kasse' }]);
		expect(service.asked[0].headers).toMatchObject({ 'x-request-purpose': 'dropdown' });
		expect(service.asked[0].qs).toMatchObject({ connectionId: 'c1', clientId: '1001-1' });
	});

	it('goes on where its last page ended, and lets the service filter where it can', async () => {
		const link = '<https://x/v2?cursor=4>; rel="next"';
		const service = new Service(() => ({ headers: { link }, body: '{"data":[]}' }));
		const { paginationToken } = await LIST_SEARCH.banks.call(contextOf(service, {}), 'must');
		await LIST_SEARCH.banks.call(contextOf(service, {}), 'must', paginationToken as string);
		expect(service.asked[0].qs).toMatchObject({ name: 'must' });
		expect(service.asked[1].qs).toEqual({ cursor: '4', quelle: 'n8n' });
	});
});
