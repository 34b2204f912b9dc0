import type { INodeProperties, INodePropertyOptions } from 'n8n-workflow';

import type { Field, Operation, Resource } from './table';
import { RESOURCES } from './table';

const READ_ONLY_HINT =
	'Nothing is paid by this node alone: a person authorises each payment at the bank or releases it in the dashboard. For an agent use a key that may only read, or one with <code>banking:write</code> and Prepared Order: the service then refuses payments, whatever the agent tries.';

export function titled(value: string): string {
	const words = value.split(/[._\s]+/).filter((word) => word !== '');
	return words.map((word) => word[0].toUpperCase() + word.slice(1)).join(' ');
}

function options(choices: string[]): INodePropertyOptions[] {
	return choices.map((value) => ({ name: titled(value), value }));
}

export function locator(field: Field & { search: string }): INodeProperties {
	return {
		displayName: field.label,
		name: field.name,
		type: 'resourceLocator',
		default: { mode: 'list', value: '' },
		modes: [
			{
				displayName: 'From List',
				name: 'list',
				type: 'list',
				typeOptions: { searchListMethod: field.search, searchable: true },
			},
			{
				displayName: field.kind === 'text' && field.name === 'kassenname' ? 'By Name' : 'By ID',
				name: 'id',
				type: 'string',
				placeholder: field.example ?? '',
			},
		],
	};
}

function typed(field: Field): INodeProperties {
	const named = { displayName: field.label, name: field.name, placeholder: field.example ?? '' };
	switch (field.kind) {
		case 'boolean':
			return { ...named, placeholder: undefined, type: 'boolean', default: false };
		case 'integer':
			return { ...named, type: 'number', typeOptions: { numberPrecision: 0 }, default: 0 };
		case 'choice':
			return { ...named, type: 'options', options: options(field.choices ?? []), default: field.choices?.[0] ?? '' };
		case 'choices':
			return { ...named, type: 'multiOptions', options: options(field.choices ?? []), default: [] };
		case 'date':
		case 'moment':
			return { ...named, type: 'dateTime', default: '' };
		case 'json':
			return { ...named, type: 'json', default: '' };
		case 'amount':
			return { ...named, type: 'string', default: '', placeholder: field.example ?? '119.00' };
		default:
			return field.search
				? locator({ ...field, search: field.search })
				: { ...named, type: 'string', default: '', ...(field.secret ? { typeOptions: { password: true } } : {}) };
	}
}

function described(field: Field): INodeProperties {
	const hints = [
		field.description ?? '',
		field.kind === 'amount' ? 'A text with a point, exact to the cent' : '',
		field.kind === 'texts' ? 'Several with commas between them, or a list' : '',
		field.kind === 'date' ? 'A day; the time of day does not count' : '',
	];
	const description = hints.filter((hint) => hint !== '').join('. ');
	return { ...typed(field), ...(field.required ? { required: true } : {}), ...(description ? { description } : {}) };
}

const isShown = (field: Field) => Boolean(field.required || field.shown);

/** Fields that are the same for several operations of a resource stand once. */
function shownFields(resource: Resource): INodeProperties[] {
	const found = new Map<string, { property: INodeProperties; operations: string[] }>();
	for (const operation of resource.operations) {
		for (const field of operation.fields.filter(isShown)) {
			const property = described(field);
			const key = JSON.stringify(property);
			const known = found.get(key) ?? { property, operations: [] };
			known.operations.push(operation.value);
			found.set(key, known);
		}
	}
	return [...found.values()].map(({ property, operations }) => ({
		...property,
		displayOptions: { show: { resource: [resource.value], operation: operations } },
	}));
}

function additionalFields(resource: Resource, operation: Operation): INodeProperties[] {
	const optional = operation.fields.filter((field) => !isShown(field)).map(described);
	if (operation.idempotent) {
		optional.push({
			displayName: 'Idempotency Key',
			name: 'idempotencyKey',
			type: 'string',
			default: '',
			placeholder: '={{ $json.invoiceNumber }}',
			description:
				'Your own name for what is to be done once, such as the number of an invoice. Without it the key is made of the execution, the node, its run and the item: a step that n8n repeats, or an execution that is retried, is done once, but a new execution is another one.',
		});
	}
	if (optional.length === 0) return [];
	return [
		{
			displayName: 'Additional Fields',
			name: 'additionalFields',
			type: 'collection',
			placeholder: 'Add Field',
			default: {},
			options: optional.sort((one, other) => one.displayName.localeCompare(other.displayName)),
			displayOptions: { show: { resource: [resource.value], operation: [operation.value] } },
		},
	];
}

function shared(resource: Resource): INodeProperties[] {
	const having = (test: (operation: Operation) => unknown) =>
		resource.operations.filter(test).map(({ value }) => value);
	const show = (operation: string[]) => ({ resource: [resource.value], operation });
	const [lists, simple] = [having(({ list }) => list), having((operation) => operation.simple)];
	const [uploads, downloads] = [having(({ upload }) => upload), having(({ download }) => download)];
	const properties: INodeProperties[] = [
		{
			displayName: 'Return All',
			name: 'returnAll',
			type: 'boolean',
			default: false,
			description: 'Whether to return all results or only up to a given limit',
			displayOptions: { show: show(lists) },
		},
		{
			displayName: 'Limit',
			name: 'limit',
			type: 'number',
			typeOptions: { minValue: 1 },
			default: 50,
			description: 'Max number of results to return',
			displayOptions: { show: { ...show(lists), returnAll: [false] } },
		},
		{
			displayName: 'Simplify',
			name: 'simplify',
			type: 'boolean',
			default: true,
			description: 'Whether to return a simplified version of the response instead of the raw data',
			displayOptions: { show: show(simple) },
		},
		{
			displayName: 'Input Data Field Name',
			name: 'binaryPropertyName',
			type: 'string',
			default: 'data',
			required: true,
			description: 'The field of the item that holds the file',
			displayOptions: { show: show(uploads) },
		},
		{
			displayName: 'Put Output File in Field',
			name: 'outputPropertyName',
			type: 'string',
			default: 'data',
			required: true,
			description: 'The field of the item that the file is put into',
			displayOptions: { show: show(downloads) },
		},
	];
	return properties.filter(({ displayOptions }) => displayOptions?.show?.operation?.length);
}

function notices(resource: Resource): INodeProperties[] {
	if (!['payment', 'paymentRun'].includes(resource.value)) return [];
	return [
		{
			displayName: READ_ONLY_HINT,
			name: 'paymentNotice',
			type: 'notice',
			default: '',
			displayOptions: { show: { resource: [resource.value] } },
		},
	];
}

function choice({ name, value, action, description, credits }: Operation): INodePropertyOptions {
	return { name, value, action, description: credits ? `${description}. Credits: ${credits}` : description };
}

function operations(resource: Resource): INodeProperties {
	const named = { displayName: 'Operation', name: 'operation' };
	return {
		...named,
		type: 'options',
		noDataExpression: true,
		displayOptions: { show: { resource: [resource.value] } },
		options: resource.operations.map(choice),
		default: resource.operations[0]?.value ?? '',
	};
}

export const PROPERTIES: INodeProperties[] = [
	{
		displayName: 'Resource',
		name: 'resource',
		type: 'options',
		noDataExpression: true,
		options: RESOURCES.map(({ name, value }) => ({ name, value })),
		default: 'transaction',
	},
	...RESOURCES.map(operations),
	...RESOURCES.flatMap((resource) => [
		...notices(resource),
		...shownFields(resource),
		...shared(resource),
		...resource.operations.flatMap((operation) => additionalFields(resource, operation)),
	]),
];
