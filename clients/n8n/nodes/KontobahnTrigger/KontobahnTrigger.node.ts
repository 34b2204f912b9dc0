import type {
	IDataObject,
	IHookFunctions,
	INodeType,
	INodeTypeDescription,
	IWebhookFunctions,
	IWebhookResponseData,
} from 'n8n-workflow';
import { NodeConnectionTypes } from 'n8n-workflow';

import { CREDENTIAL_TEST } from '../Kontobahn/credential';
import { titled } from '../Kontobahn/properties';
import { sendForJson } from '../Kontobahn/request';
import { EVENTS } from '../Kontobahn/table';
import { readJson } from '../Kontobahn/values';
import { isNew, isSigned } from './signature';

const ENDPOINTS = '/v2/banking/webhook-endpoints';

/** A receiver at the service. A trial in the editor has one of its own, so that it never takes the other's place. */
interface Receiver {
	id: string;
	secret: string;
}

interface Endpoint {
	id: string;
	url: string;
	events: string[] | null;
	status: string;
	secret?: string;
}

type Context = IHookFunctions | IWebhookFunctions;

function slot(context: Context): 'editor' | 'workflow' {
	return context.getMode() === 'manual' ? 'editor' : 'workflow';
}

function receivers(context: Context): Record<string, Receiver | undefined> {
	const kept = context.getWorkflowStaticData('node');
	kept.receivers ??= {};
	return kept.receivers as Record<string, Receiver | undefined>;
}

// n8n 2.41 forgets what a webhook notes in the static data when it starts a run, so it is noted here as well.
const SEEN = new Map<string, Record<string, number>>();

/** Notes an event and says whether it came within a day before. */
function isRepeated(context: IWebhookFunctions, id: string, nowSeconds: number): boolean {
	const kept = context.getWorkflowStaticData('node');
	const place = JSON.stringify([context.getWorkflow().id, context.getNode().id, slot(context)]);
	const seen = { ...(kept.seen as Record<string, number> | undefined), ...SEEN.get(place) };
	const isFirst = isNew(seen, id, nowSeconds);
	SEEN.set(place, seen);
	kept.seen = { ...seen };
	return !isFirst;
}

/** Asks the service whether it has had this event taken before: what n8n has noted is gone after a restart. */
async function wasTaken(context: IWebhookFunctions, id: string): Promise<boolean> {
	const receiver = receivers(context)[slot(context)];
	if (!receiver) return false;
	const answer = (await sendForJson(context, {
		method: 'GET',
		path: `${ENDPOINTS}/${receiver.id}/deliveries`,
		query: {},
	})) as { data: Array<{ id: string; delivery: { attempts: Array<{ status: number | null }> } }> };
	const found = answer.data.find((event) => event.id === id);
	return found?.delivery.attempts.some(({ status }) => status !== null && status < 300) ?? false;
}

function wanted(context: IHookFunctions): { url: string; events: string[] | null; description: string } {
	const events = context.getNodeParameter('events') as string[];
	return {
		url: context.getNodeWebhookUrl('default') as string,
		events: events.includes('*') ? null : [...events].sort(),
		description: `n8n: ${context.getWorkflow().name ?? ''}`.slice(0, 200),
	};
}

async function endpoints(context: IHookFunctions): Promise<Endpoint[]> {
	const answer = (await sendForJson(context, { method: 'GET', path: ENDPOINTS, query: scope(context) })) as IDataObject;
	return answer.data as unknown as Endpoint[];
}

function scope(context: IHookFunctions): Record<string, string> {
	const { organizationId } = context.getNodeParameter('options', {}) as { organizationId?: string };
	return organizationId ? { organization_id: organizationId } : {};
}

async function write(
	context: IHookFunctions,
	method: 'POST' | 'PUT' | 'DELETE',
	path: string,
	body?: object,
	query: Record<string, string> = {},
): Promise<Endpoint> {
	const answer = (await sendForJson(context, {
		method,
		path: ENDPOINTS + path,
		query,
		headers: body ? { 'content-type': 'application/json' } : {},
		body: body && JSON.stringify(body),
	})) as IDataObject;
	return answer.data as unknown as Endpoint;
}

const same = (one: string[] | null, other: string[] | null) =>
	JSON.stringify(one && [...one].sort()) === JSON.stringify(other);

export class KontobahnTrigger implements INodeType {
	description: INodeTypeDescription = {
		displayName: 'Kontobahn Trigger',
		name: 'kontobahnTrigger',
		icon: { light: 'file:../../icons/kontobahn.svg', dark: 'file:../../icons/kontobahn.dark.svg' },
		group: ['trigger'],
		version: 1,
		subtitle: '={{ $parameter["events"].join(", ") }}',
		description: 'Starts the workflow when Kontobahn reports an event, and only if it is signed',
		defaults: { name: 'Kontobahn Trigger' },
		usableAsTool: undefined,
		inputs: [],
		outputs: [NodeConnectionTypes.Main],
		credentials: [{ name: 'kontobahnApi', required: true, testedBy: 'kontobahnApiTest' }],
		webhooks: [
			{ name: 'default', httpMethod: 'POST', responseMode: 'onReceived', responseData: 'noData', path: 'webhook' },
		],
		properties: [
			{
				displayName:
					'The key needs the scope <code>webhooks</code>. The node registers a receiver of its own when the workflow is activated, and removes it when it is deactivated.',
				name: 'notice',
				type: 'notice',
				default: '',
			},
			{
				displayName: 'Events',
				name: 'events',
				type: 'multiOptions',
				required: true,
				default: ['*'],
				description: 'The events that start the workflow',
				options: [{ name: 'All', value: '*' }, ...EVENTS.map((value) => ({ name: titled(value), value }))],
			},
			{
				displayName: 'Options',
				name: 'options',
				type: 'collection',
				placeholder: 'Add option',
				default: {},
				options: [
					{
						displayName: 'Drop Repeated Deliveries',
						name: 'dropRepeated',
						type: 'boolean',
						default: true,
						description:
							'Whether an event that comes again within a day, also by Resend, starts the workflow only once',
					},
					{
						displayName: 'Organization ID',
						name: 'organizationId',
						type: 'string',
						default: '',
						description: "For a key of an agency: whose events; the key's own organisation when left out",
					},
				],
			},
		],
	};

	methods = { credentialTest: CREDENTIAL_TEST };

	webhookMethods = {
		default: {
			async checkExists(this: IHookFunctions): Promise<boolean> {
				const [known, { url, events }] = [receivers(this)[slot(this)], wanted(this)];
				if (!known) return false;
				const found = (await endpoints(this)).find(({ id }) => id === known.id);
				return found?.url === url && found.status === 'active' && same(found.events, events);
			},
			async create(this: IHookFunctions): Promise<boolean> {
				const [kept, place, body] = [receivers(this), slot(this), wanted(this)];
				const known = kept[place];
				const found = (await endpoints(this)).find(({ id, url }) => id === known?.id || url === body.url);
				if (!found) {
					const { id, secret } = await write(this, 'POST', '', body, scope(this));
					kept[place] = { id, secret: secret as string };
					return true;
				}
				// It waits there already, and so do events for it: it is changed, not replaced.
				await write(this, 'PUT', `/${found.id}`, body);
				if (found.status !== 'active') await write(this, 'POST', `/${found.id}/resume`);
				if (found.id !== known?.id) {
					const { secret } = await write(this, 'POST', `/${found.id}/secret`);
					kept[place] = { id: found.id, secret: secret as string };
				}
				return true;
			},
			async delete(this: IHookFunctions): Promise<boolean> {
				const [kept, place] = [receivers(this), slot(this)];
				const known = kept[place];
				if (known && (await endpoints(this)).some(({ id }) => id === known.id)) {
					await write(this, 'DELETE', `/${known.id}`);
				}
				delete kept[place];
				return true;
			},
		},
	};

	async webhook(this: IWebhookFunctions): Promise<IWebhookResponseData> {
		const headers = this.getHeaderData() as IDataObject;
		const { rawBody } = this.getRequestObject();
		const secrets = Object.values(receivers(this)).map((receiver) => receiver?.secret ?? '');
		const now = Math.floor(Date.now() / 1000);
		if (!Buffer.isBuffer(rawBody) || !isSigned(rawBody, headers, secrets, now)) {
			this.getResponseObject().status(401).json({ error: 'The signature does not match, or is too old.' });
			return { noWebhookResponse: true };
		}
		const id = headers['webhook-id'] as string;
		const { dropRepeated = true } = this.getNodeParameter('options', {}) as { dropRepeated?: boolean };
		if (dropRepeated && (isRepeated(this, id, now) || (await wasTaken(this, id)))) return {};
		const event = readJson(rawBody.toString('utf8')) as IDataObject;
		return { workflowData: [[{ json: { id, ...event } }]] };
	}
}
