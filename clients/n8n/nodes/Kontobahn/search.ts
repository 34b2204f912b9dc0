import type {
	IDataObject,
	ILoadOptionsFunctions,
	INodeListSearchItems,
	INodeListSearchResult,
} from 'n8n-workflow';

import { send } from './request';
import type { Search } from './table';
import { SEARCHES } from './table';
import { at, nextPage, readJson, rowsOf } from './values';

/** What another field of the node holds, whether it is shown by itself or under Additional Fields. */
function given(context: ILoadOptionsFunctions, name: string): string {
	const names = name === 'connectionId' ? [name, 'connection_id'] : [name, name.replace('Id', '_id')];
	for (const one of [...names, ...names.map((inner) => `additionalFields.${inner}`)]) {
		const value = context.getCurrentNodeParameter(one);
		const held = (value as IDataObject | undefined)?.value ?? value;
		if (typeof held === 'string' && held !== '') return held;
	}
	return '';
}

export function choicesOf(rows: IDataObject[], search: Search, filter = ''): INodeListSearchItems[] {
	const words = filter.toLowerCase().split(/\s+/).filter((word) => word !== '');
	return rows
		.map((row) => ({
			name: search.label
				.map((path) => at(row, path))
				.filter((part) => part !== null && part !== undefined && part !== '')
				.join(' · '),
			value: String(at(row, search.value) ?? ''),
		}))
		.filter(({ name, value }) => {
			const text = `${name} ${value}`.toLowerCase();
			return value !== '' && words.every((word) => text.includes(word));
		});
}

function searching(search: Search) {
	return async function (
		this: ILoadOptionsFunctions,
		filter?: string,
		paginationToken?: string,
	): Promise<INodeListSearchResult> {
		const query: Record<string, string | number> = { ...search.query };
		for (const [name, source] of Object.entries(search.given ?? {})) {
			const value = given(this, source);
			if (value !== '') query[name] = value;
		}
		if (search.filter && filter) query[search.filter] = filter;
		const page = paginationToken ? (JSON.parse(paginationToken) as Record<string, string>) : query;
		// Filling a list of choices is free.
		const headers = { 'x-request-purpose': 'dropdown' };
		const answer = await send(this, { method: 'GET', path: search.path, query: page, headers });
		const next = nextPage(answer.headers.link);
		return {
			results: choicesOf(rowsOf(readJson(answer.bytes.toString('utf8'))), search, filter),
			paginationToken: next && JSON.stringify(next),
		};
	};
}

export const LIST_SEARCH = Object.fromEntries(
	Object.entries(SEARCHES).map(([name, search]) => [name, searching(search)]),
);
