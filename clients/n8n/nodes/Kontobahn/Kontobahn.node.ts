import type {
	IExecuteFunctions,
	INodeExecutionData,
	INodeType,
	INodeTypeDescription,
	JsonObject,
} from 'n8n-workflow';
import { NodeApiError, NodeConnectionTypes, NodeOperationError } from 'n8n-workflow';

import { perform } from './call';
import { CREDENTIAL_TEST } from './credential';
import { PROPERTIES } from './properties';
import { LIST_SEARCH } from './search';
import { operationOf } from './table';

/** Whether an agent calls the node as its tool. An n8n of 1.x may not know. */
const isTool = (context: Partial<Pick<IExecuteFunctions, 'isToolExecution'>>) => context.isToolExecution?.() ?? false;

export class Kontobahn implements INodeType {
	description: INodeTypeDescription = {
		displayName: 'Kontobahn',
		name: 'kontobahn',
		icon: { light: 'file:../../icons/kontobahn.svg', dark: 'file:../../icons/kontobahn.dark.svg' },
		group: ['transform'],
		version: 1,
		subtitle: '={{ $parameter["operation"] + ": " + $parameter["resource"] }}',
		description:
			'Ledger, bank accounts, payments, received invoices and mobility of a Kontobahn service',
		defaults: { name: 'Kontobahn' },
		usableAsTool: true,
		inputs: [NodeConnectionTypes.Main],
		outputs: [NodeConnectionTypes.Main],
		credentials: [{ name: 'kontobahnApi', required: true, testedBy: 'kontobahnApiTest' }],
		properties: PROPERTIES,
	};

	methods = { credentialTest: CREDENTIAL_TEST, listSearch: LIST_SEARCH };

	async execute(this: IExecuteFunctions): Promise<INodeExecutionData[][]> {
		const items = this.getInputData();
		const done: INodeExecutionData[] = [];
		for (let itemIndex = 0; itemIndex < items.length; itemIndex += 1) {
			try {
				const resource = this.getNodeParameter('resource', itemIndex) as string;
				const operation = operationOf(resource, this.getNodeParameter('operation', itemIndex) as string);
				if (!operation) {
					throw new NodeOperationError(this.getNode(), 'There is no such operation', { itemIndex });
				}
				for (const row of await perform(this, operation, itemIndex)) done.push(row);
			} catch (error) {
				const known =
					error instanceof NodeApiError || error instanceof NodeOperationError
						? error
						: new NodeApiError(this.getNode(), error as JsonObject, { itemIndex });
				// A model learns nothing from an error that is thrown: n8n hands it an empty answer.
				if (!this.continueOnFail() && !isTool(this)) throw known;
				done.push({
					json: { ...items[itemIndex].json, error: known.message, error_description: known.description ?? null },
					// Where there is an output for errors, n8n finds by this what belongs there; elsewhere it would drop the item.
					...(this.getNode().onError === 'continueErrorOutput' ? { error: known } : {}),
					pairedItem: { item: itemIndex },
				});
			}
		}
		return [done];
	}
}
