import type {
	IDataObject,
	INodeExecutionData,
	INodeType,
	INodeTypeDescription,
	IPollFunctions,
} from 'n8n-workflow';
import { NodeConnectionTypes } from 'n8n-workflow';

import { CREDENTIAL_TEST } from '../Kontobahn/credential';
import { locator } from '../Kontobahn/properties';
import { sendForJson } from '../Kontobahn/request';
import { LIST_SEARCH } from '../Kontobahn/search';
import { operationOf } from '../Kontobahn/table';
import { simplified } from '../Kontobahn/values';

const PATH = '/v2/banking/transactions/changes';
const PAGE = 1000;
// What is left comes with the next poll.
const MAX_ROWS = 20 * PAGE;

interface Page {
	data: IDataObject[];
	cursor: string;
	has_more: boolean;
}

function query(context: IPollFunctions, cursor: string, limit: number): Record<string, string | number> {
	const filters = context.getNodeParameter('filters', {}) as IDataObject;
	const chosen: Record<string, string | number> = { limit };
	if (cursor) chosen.cursor = cursor;
	for (const name of ['account_id', 'connection_id']) {
		const value = (filters[name] as IDataObject | undefined)?.value;
		if (value) chosen[name] = String(value);
	}
	return chosen;
}

async function page(context: IPollFunctions, cursor: string, limit = PAGE): Promise<Page> {
	return (await sendForJson(context, {
		method: 'GET',
		path: PATH,
		query: query(context, cursor, limit),
	})) as Page;
}

/** Where the feed ends now: what was before is not reported. */
async function end(context: IPollFunctions): Promise<string> {
	for (let cursor = ''; ; ) {
		const found = await page(context, cursor, 10000);
		cursor = found.cursor;
		if (!found.has_more) return cursor;
	}
}

function outgoing(context: IPollFunctions, rows: IDataObject[]): INodeExecutionData[][] | null {
	const kinds = context.getNodeParameter('changes') as string[];
	const kept = operationOf('transaction', 'getChanges')?.simple ?? [];
	const isSimple = context.getNodeParameter('simplify') as boolean;
	const found = rows
		.filter(({ change }) => kinds.includes(change as string))
		.map((row) => ({ json: isSimple ? simplified(row, kept) : row }));
	return found.length === 0 ? null : [found];
}

export class KontobahnTransactionTrigger implements INodeType {
	description: INodeTypeDescription = {
		displayName: 'Kontobahn Transaction Trigger',
		name: 'kontobahnTransactionTrigger',
		icon: { light: 'file:../../icons/kontobahn.svg', dark: 'file:../../icons/kontobahn.dark.svg' },
		group: ['trigger'],
		version: 1,
		subtitle: '={{ $parameter["changes"].join(", ") }}',
		description: 'Starts the workflow with bank transactions that were added, changed or removed',
		defaults: { name: 'Kontobahn Transaction Trigger' },
		usableAsTool: undefined,
		polling: true,
		inputs: [],
		outputs: [NodeConnectionTypes.Main],
		credentials: [{ name: 'kontobahnApi', required: true, testedBy: 'kontobahnApiTest' }],
		properties: [
			{
				displayName: 'Changes',
				name: 'changes',
				type: 'multiOptions',
				required: true,
				default: ['added', 'modified', 'removed'],
				description:
					'Which changes start the workflow. A transaction that changed before it was read comes as modified at once, so leaving that out may leave out new ones.',
				options: [
					{ name: 'Added', value: 'added' },
					{ name: 'Modified', value: 'modified' },
					{ name: 'Removed', value: 'removed' },
				],
			},
			{
				displayName: 'Start With',
				name: 'startWith',
				type: 'options',
				default: 'new',
				description: 'What the first poll after activation reports',
				options: [
					{ name: 'Everything That Is There', value: 'all' },
					{ name: 'What Is New From Now On', value: 'new' },
				],
			},
			{
				displayName: 'Simplify',
				name: 'simplify',
				type: 'boolean',
				default: true,
				description: 'Whether to return a simplified version of the response instead of the raw data',
			},
			{
				displayName: 'Filters',
				name: 'filters',
				type: 'collection',
				placeholder: 'Add Filter',
				default: {},
				options: [
					locator({ name: 'account_id', label: 'Account', in: 'query', kind: 'text', search: 'bankAccounts' }),
					locator({ name: 'connection_id', label: 'Connection', in: 'query', kind: 'text', search: 'bankConnections' }),
				],
			},
		],
	};

	methods = { credentialTest: CREDENTIAL_TEST, listSearch: LIST_SEARCH };

	async poll(this: IPollFunctions): Promise<INodeExecutionData[][] | null> {
		if (this.getMode() === 'manual') return outgoing(this, (await page(this, '', 1)).data);
		const kept = this.getWorkflowStaticData('node');
		if (typeof kept.cursor !== 'string') {
			kept.cursor = this.getNodeParameter('startWith') === 'new' ? await end(this) : '';
		}
		const rows: IDataObject[] = [];
		let cursor = kept.cursor as string;
		let isMore = true;
		while (isMore && rows.length < MAX_ROWS) {
			const found = await page(this, cursor);
			for (const row of found.data) rows.push(row);
			cursor = found.cursor;
			isMore = found.has_more;
		}
		kept.cursor = cursor;
		return outgoing(this, rows);
	}
}
