import type { INodeProperties } from 'n8n-workflow';
import { describe, expect, it } from 'vitest';

import { converted, fileNameOf, idempotencyKey } from '../nodes/Kontobahn/call';
import { PROPERTIES } from '../nodes/Kontobahn/properties';
import { choicesOf, LIST_SEARCH } from '../nodes/Kontobahn/search';
import { RESOURCES, SEARCHES } from '../nodes/Kontobahn/table';

const shown = (resource: string, operation: string) =>
	PROPERTIES.filter(({ displayOptions }) => {
		const { resource: resources, operation: operations } = displayOptions?.show ?? {};
		return resources?.includes(resource) && (!operations || operations.includes(operation));
	});

function everyProperty(properties: INodeProperties[] = PROPERTIES): INodeProperties[] {
	return properties.flatMap((property) => [
		property,
		...(property.type === 'collection' ? everyProperty(property.options as INodeProperties[]) : []),
	]);
}

describe('the fields of the node', () => {
	it('stand once for each operation', () => {
		for (const resource of RESOURCES) {
			for (const { value } of resource.operations) {
				const names = shown(resource.value, value).map(({ name }) => name);
				expect(new Set(names).size, `${resource.value} ${value}: ${names.join()}`).toBe(names.length);
			}
		}
	});

	it('search only where there is a search', () => {
		const methods = everyProperty().flatMap(({ modes }) =>
			(modes ?? []).flatMap((mode) => mode.typeOptions?.searchListMethod ?? []),
		);
		expect(new Set(methods)).toEqual(new Set(Object.keys(LIST_SEARCH)));
	});

	it('hold amounts as texts', () => {
		const create = shown('payment', 'create');
		expect(create.find(({ name }) => name === 'amount')).toMatchObject({ type: 'string', required: true });
	});

	it('say of payments that a key may be one that only reads', () => {
		expect(shown('payment', 'create').find(({ type }) => type === 'notice')?.displayName).toContain('only read');
	});

	it('never simplify what a write answers, such as a secret', () => {
		const written = RESOURCES.flatMap(({ operations }) => operations).filter(({ method }) => method !== 'GET');
		expect(written.filter(({ simple, list }) => simple ?? list)).toEqual([]);
	});
});

describe('a search', () => {
	it('finds by part of a name, and by several words', () => {
		const rows = [
			{ id: '1', name: 'Geschäftskonto', extra: { iban: 'DE18' } },
			{ id: '2', name: 'Tagesgeld', extra: { iban: null } },
		];
		const names = (filter?: string) => choicesOf(rows, SEARCHES.bankAccounts, filter).map(({ name }) => name);
		expect(names()).toEqual(['Geschäftskonto · DE18', 'Tagesgeld']);
		expect(names('konto de18')).toEqual(['Geschäftskonto · DE18']);
		expect(names('GELD')).toEqual(['Tagesgeld']);
	});
});

describe('a call', () => {
	it('has a key of its own for each execution, node, run and item', () => {
		const parts = ['instance', 'workflow', '1', 'node', 0, 0] as const;
		const keys = parts.map((part, place) => idempotencyKey(...parts.map((own, at) => (at === place ? `${own}1` : own))));
		expect(new Set([...keys, idempotencyKey(...parts)]).size).toBe(parts.length + 1);
		expect(idempotencyKey(...parts)).toMatch(/^n8n-[0-9a-f]{48}$/);
		expect(idempotencyKey('1', '11')).not.toBe(idempotencyKey('11', '1'));
	});

	it('takes the file name that the service gives', () => {
		expect(fileNameOf("attachment; filename*=UTF-8''Rechnung%20%C3%A4.pdf")).toBe('Rechnung ä.pdf');
		expect(fileNameOf('attachment; filename="a.xml"')).toBe('a.xml');
		expect(fileNameOf(undefined)).toBeUndefined();
	});

	it('takes a text for what may be a text or JSON', () => {
		const field = { name: 'a', label: 'A', in: 'body', kind: 'json', plain: true } as const;
		expect(converted(field, 'Musterstraße 1', 'UTC')).toBe('Musterstraße 1');
		expect(converted(field, '{"city": "Berlin"}', 'UTC')).toEqual({ city: 'Berlin' });
		expect(() => converted({ ...field, plain: false }, 'no JSON', 'UTC')).toThrow();
	});
});
