import { createHmac } from 'crypto';

import type { IDataObject, IHttpRequestOptions } from 'n8n-workflow';
import { describe, expect, it } from 'vitest';

import { KontobahnTransactionTrigger } from '../nodes/KontobahnTransactionTrigger/KontobahnTransactionTrigger.node';
import { KontobahnTrigger } from '../nodes/KontobahnTrigger/KontobahnTrigger.node';
import type { Reply } from './service';
import { contextOf, Service } from './service';

const URL = 'https://n8n.example.com/webhook/1';
const hooks = new KontobahnTrigger().webhookMethods.default;

/** The receivers that a Kontobahn has, as its calls change them. */
class Receivers extends Service {
	kept: Array<{ id: string; url: string; events: string[] | null; status: string }> = [];

	constructor() {
		super((asked) => ({ body: JSON.stringify({ data: this.done(asked) }) }));
	}

	private done({ method, url, body }: IHttpRequestOptions): unknown {
		const [, id, action] = /webhook-endpoints\/?([^/]*)\/?(.*)$/.exec(url) as RegExpExecArray;
		const given = JSON.parse(String(body ?? '{}')) as { url: string; events: string[] | null };
		const known = this.kept.find((one) => one.id === id);
		if (method === 'GET') return this.kept;
		if (method === 'DELETE') this.kept = this.kept.filter((one) => one !== known);
		else if (action === 'resume' && known) known.status = 'active';
		else if (action === 'secret') return { id, secret: 'whsec_new' };
		else if (known) Object.assign(known, given);
		else this.kept.push({ id: `e${this.asked.length}`, status: 'active', ...given });
		return { ...(known ?? this.kept[this.kept.length - 1]), secret: 'whsec_first' };
	}
}

function triggerOf(service: Service, events = ['*'], kept: IDataObject = {}, more: object = {}): never {
	const own = { getWorkflowStaticData: () => kept, getNodeWebhookUrl: () => URL };
	return contextOf(service, { events, options: {} }, { ...own, ...more });
}

describe('the receiver of a workflow', () => {
	it('is made once, found again, and removed', async () => {
		const [service, kept] = [new Receivers(), {}];
		const trigger = triggerOf(service, ['payment_update'], kept);
		expect(await hooks.checkExists.call(trigger)).toBe(false);
		await hooks.create.call(trigger);
		expect(service.kept).toMatchObject([{ url: URL, events: ['payment_update'], description: 'n8n: Flow' }]);
		expect(await hooks.checkExists.call(trigger)).toBe(true);
		await hooks.delete.call(trigger);
		expect(service.kept).toEqual([]);
		expect(kept).toEqual({ receivers: {} });
		await hooks.delete.call(trigger);
		expect(service.calls.filter((call) => call.startsWith('DELETE')).length).toBe(1);
	});

	it('is changed in its place when other events are chosen, and goes on if it was paused', async () => {
		const [service, kept] = [new Receivers(), {} as IDataObject];
		await hooks.create.call(triggerOf(service, ['*'], kept));
		expect(service.kept[0].events).toBeNull();
		const other = triggerOf(service, ['b', 'a'], kept);
		expect(await hooks.checkExists.call(other)).toBe(false);
		await hooks.create.call(other);
		expect(service.kept).toMatchObject([{ events: ['a', 'b'] }]);
		service.kept[0].status = 'paused';
		expect(await hooks.checkExists.call(other)).toBe(false);
		await hooks.create.call(other);
		expect(service.kept).toMatchObject([{ status: 'active' }]);
		expect((kept.receivers as IDataObject).workflow).toMatchObject({ secret: 'whsec_first' });
	});

	it('is taken over with a new secret if n8n has forgotten it, instead of a second one', async () => {
		const [service, kept] = [new Receivers(), {} as IDataObject];
		await hooks.create.call(triggerOf(service));
		await hooks.create.call(triggerOf(service, ['*'], kept));
		expect(service.kept.length).toBe(1);
		expect((kept.receivers as IDataObject).workflow).toEqual({ id: service.kept[0].id, secret: 'whsec_new' });
	});

	it('is another one for a trial in the editor, which never takes the place of the first', async () => {
		const [service, kept] = [new Receivers(), {} as IDataObject];
		await hooks.create.call(triggerOf(service, ['*'], kept));
		const trial = triggerOf(service, ['*'], kept, { getMode: () => 'manual', getNodeWebhookUrl: () => `${URL}-test` });
		await hooks.create.call(trial);
		expect(service.kept.map(({ url }) => url)).toEqual([URL, `${URL}-test`]);
		await hooks.delete.call(trial);
		expect(service.kept.map(({ url }) => url)).toEqual([URL]);
	});
});

describe('an event', () => {
	const KEY = Buffer.from('a key of more than twenty-four bytes');
	const SECRET = `whsec_${KEY.toString('base64')}`;
	const BODY = Buffer.from('{"event":"payment_update","data":{"amount":1.50}}');
	const untaken = () => new Service(() => ({ body: '{"data":[]}' }));

	async function received(service: Service, id: string, more: object = {}, options: IDataObject = {}, key = KEY) {
		const at = String(Math.floor(Date.now() / 1000));
		const signature = createHmac('sha256', key).update(`${id}.${at}.`).update(BODY).digest('base64');
		const headers = { 'webhook-id': id, 'webhook-timestamp': at, 'webhook-signature': `v1,${signature}` };
		const answered: Array<[number, unknown]> = [];
		const kept = { receivers: { workflow: { id: 'e1', secret: SECRET } } };
		const context = contextOf(service, { options }, {
			getWorkflowStaticData: () => kept,
			getHeaderData: () => headers,
			getRequestObject: () => ({ rawBody: BODY }),
			getResponseObject: () => ({ status: (code: number) => ({ json: (said: unknown) => answered.push([code, said]) }) }),
			...more,
		});
		return { data: await new KontobahnTrigger().webhook.call(context), answered };
	}

	it('starts the workflow once, with its amounts as texts', async () => {
		const first = await received(untaken(), 'once');
		expect(first.data.workflowData).toEqual([
			[{ json: { id: 'once', event: 'payment_update', data: { amount: '1.50' } } }],
		]);
		expect((await received(untaken(), 'once')).data).toEqual({});
	});

	it('starts it again only if that is wanted', async () => {
		await received(untaken(), 'twice', {}, { dropRepeated: false });
		expect((await received(untaken(), 'twice', {}, { dropRepeated: false })).data.workflowData).toBeDefined();
	});

	it.each([
		[200, false],
		[500, true],
		[null, true],
	])('that was answered %s before n8n was started anew starts it: %s', async (status, starts) => {
		const id = `before ${status}`;
		const delivered = { data: [{ id, delivery: { attempts: [{ status }] } }] };
		const service = new Service(() => ({ body: JSON.stringify(delivered) }));
		const { data } = await received(service, id);
		expect(service.calls).toEqual(['GET /v2/banking/webhook-endpoints/e1/deliveries']);
		expect(data.workflowData !== undefined).toBe(starts);
	});

	it('that is forged, or has lost its bytes, is answered 401 and starts nothing', async () => {
		const service = untaken();
		const forged = await received(service, 'forged', {}, {}, Buffer.from('another key'));
		const parsed = await received(service, 'parsed', { getRequestObject: () => ({ rawBody: undefined, body: {} }) });
		for (const { data, answered } of [forged, parsed]) {
			expect(data).toEqual({ noWebhookResponse: true });
			expect(answered).toMatchObject([[401, {}]]);
		}
		expect(service.asked).toEqual([]);
	});
});

describe('the trigger for transactions', () => {
	const CHANGES = ['added', 'modified', 'removed'];
	const feed = (length: number) =>
		new Service(({ qs }): Reply => {
			const first = Number((qs as IDataObject).cursor ?? 0);
			const limit = Number((qs as IDataObject).limit);
			const rows = Array.from({ length: Math.min(limit, length - first) }, (_, number) => ({
				id: first + number,
				change: CHANGES[(first + number) % 3],
			}));
			const cursor = String(first + rows.length);
			return { body: JSON.stringify({ data: rows, cursor, has_more: first + rows.length < length }) };
		});

	async function polled(service: Service, kept: IDataObject, more: IDataObject = {}, mode = 'trigger') {
		const parameters = { changes: CHANGES, startWith: 'all', simplify: false, filters: {}, ...more };
		const own = { getWorkflowStaticData: () => kept, getMode: () => mode };
		const found = await new KontobahnTransactionTrigger().poll.call(contextOf(service, parameters, own));
		return found?.[0].map(({ json }) => json.id) ?? null;
	}

	it('brings all that is there, page by page, and then only what is new', async () => {
		const kept = {};
		expect((await polled(feed(2500), kept))?.length).toBe(2500);
		expect(kept).toEqual({ cursor: '2500' });
		expect(await polled(feed(2500), kept)).toBeNull();
		expect(await polled(feed(2502), kept)).toEqual([2500, 2501]);
	});

	it('begins at the end of the feed if only what is new is wanted', async () => {
		const kept = {};
		expect(await polled(feed(20_001), kept, { startWith: 'new' })).toBeNull();
		expect(await polled(feed(20_002), kept, { startWith: 'new' })).toEqual([20_001]);
	});

	it('leaves the rest of a long feed to the next poll', async () => {
		const kept = {};
		expect((await polled(feed(20_500), kept))?.length).toBe(20_000);
		expect((await polled(feed(20_500), kept))?.length).toBe(500);
	});

	it('brings only the changes that were chosen, of the account that was chosen', async () => {
		const service = feed(6);
		const filters = { account_id: { value: '7' } };
		expect(await polled(service, {}, { changes: ['modified'], filters })).toEqual([1, 4]);
		expect(service.asked[0].qs).toMatchObject({ account_id: '7' });
	});

	it('shows one in the editor, and keeps its place', async () => {
		const kept = { cursor: '5' };
		expect(await polled(feed(9), kept, {}, 'manual')).toEqual([0]);
		expect(kept).toEqual({ cursor: '5' });
	});
});
