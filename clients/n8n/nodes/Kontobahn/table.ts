import table from './operations.json';

export type Kind =
	| 'amount'
	| 'boolean'
	| 'choice'
	| 'choices'
	| 'date'
	| 'integer'
	| 'json'
	| 'moment'
	| 'text'
	| 'texts';

/** A parameter of a call, or a field of its body. */
export interface Field {
	name: string;
	label: string;
	in: 'path' | 'query' | 'body';
	kind: Kind;
	/** Which of the searches fills a list of choices. */
	search?: string;
	required?: boolean;
	/** Not required, but one of a few of which one is. */
	shown?: boolean;
	nullable?: boolean;
	/** Not to be seen by whoever looks on. */
	secret?: boolean;
	/** JSON that may as well be a text. */
	plain?: boolean;
	description?: string;
	choices?: string[];
	example?: string;
}

export interface Operation {
	name: string;
	value: string;
	call: string;
	action: string;
	description: string;
	note?: string;
	method: 'GET' | 'POST' | 'PUT' | 'DELETE';
	path: string;
	scopes?: string[];
	credits?: number;
	fields: Field[];
	list?: boolean;
	paged?: boolean;
	pageSize?: number;
	simple?: string[];
	idempotent?: boolean;
	upload?: boolean;
	download?: boolean;
	/** Fields of the body, however deep, that hold an amount. */
	numbers?: string[];
}

export interface Search {
	path: string;
	query: { limit?: number };
	value: string;
	label: string[];
	/** The parameter that the service itself filters by. */
	filter?: string;
	/** Parameters that are taken from the node: by their name in the call, the name in the node. */
	given?: Record<string, string>;
}

export interface Resource {
	name: string;
	value: string;
	operations: Operation[];
}

export const EVENTS: string[] = table.events;
export const SEARCHES = table.searches as unknown as Record<string, Search>;
export const RESOURCES = table.resources as unknown as Resource[];

export function operationOf(resource: string, operation: string): Operation | undefined {
	return RESOURCES.find(({ value }) => value === resource)?.operations.find(
		({ value }) => value === operation,
	);
}
