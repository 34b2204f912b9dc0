import { describe, expect, it } from 'vitest';

import {
	day,
	moment,
	nextPage,
	readJson,
	readTypedJson,
	rowsOf,
	simplified,
	texts,
	writeJson,
} from '../nodes/Kontobahn/values';

describe('amounts', () => {
	it('come as the text that the service wrote', () => {
		expect(readJson('{"amount":1234567.10,"zero":0.00,"sum":-0.10,"count":3}')).toEqual({
			amount: '1234567.10',
			zero: '0.00',
			sum: '-0.10',
			count: 3,
		});
	});

	it('are not sought inside texts, whatever is escaped there', () => {
		const text = '{"a":"1.50 \\" 2.50 \\\\","b":[1.50,"x\\u00e4 3.1"],"12.5":1e3}';
		expect(readJson(text)).toEqual({ a: '1.50 " 2.50 \\', b: ['1.50', 'xä 3.1'], '12.5': '1e3' });
	});

	it('keep every digit of integers that a number could not hold', () => {
		expect(readJson('[9007199254740993,900719925474099]')).toEqual(['9007199254740993', 900719925474099]);
	});

	it('go out as numbers, digit by digit, where the call takes numbers', () => {
		const body = { betrag: '1234567.10', lines: [{ betrag: ' -0.10 ', text: '1.50' }], count: 2 };
		expect(writeJson(body, ['betrag'])).toBe(
			'{"betrag":1234567.10,"lines":[{"betrag":-0.10,"text":"1.50"}],"count":2}',
		);
	});

	it('go out as they were typed if they are no numbers, for the service to refuse', () => {
		expect(writeJson({ amount: '1.234,56', other: '007' }, ['amount', 'other'])).toBe(
			'{"amount":"1.234,56","other":"007"}',
		);
	});

	it('stay exact in JSON that was typed', () => {
		const typed = '[{"umsatz": 1234567.10, "faktor": 1.50, "text": "1.5"}]';
		expect(writeJson(readTypedJson(typed), ['umsatz'])).toBe(
			'[{"umsatz":1234567.10,"faktor":1.50,"text":"1.5"}]',
		);
	});

	it('cannot smuggle JSON into a body', () => {
		expect(writeJson({ a: '\u0000number:1,"b":2' })).toBe('{"a":"\\u0000number:1,\\"b\\":2"}');
	});
});

describe('days and moments', () => {
	it('take the day that was picked', () => {
		expect(day('2026-09-30T00:00:00')).toBe('2026-09-30');
		expect(day('2026-09-30T00:00:00.000+02:00')).toBe('2026-09-30');
		expect(day({ toISO: () => '2026-09-30T23:59:00.000+02:00' })).toBe('2026-09-30');
		expect(day('yesterday')).toBe('yesterday');
	});

	it('give a moment the zone of the workflow, in summer and in winter', () => {
		expect(moment('2026-07-01T12:00:00', 'Europe/Berlin')).toBe('2026-07-01T12:00:00+02:00');
		expect(moment('2026-12-01 12:00:00', 'Europe/Berlin')).toBe('2026-12-01T12:00:00+01:00');
		expect(moment('2026-12-01T12:00:00', 'UTC')).toBe('2026-12-01T12:00:00+00:00');
		expect(moment('2026-12-01T12:00:00-05:00', 'Europe/Berlin')).toBe('2026-12-01T12:00:00-05:00');
		// An hour after the change to summer time, and one before.
		expect(moment('2026-03-29T03:30:00', 'Europe/Berlin')).toBe('2026-03-29T03:30:00+02:00');
		expect(moment('2026-03-29T01:30:00', 'Europe/Berlin')).toBe('2026-03-29T01:30:00+01:00');
	});
});

describe('answers', () => {
	it('are taken apart into rows', () => {
		expect(rowsOf({ data: [{ id: 1 }, { id: 2 }], platform: {} })).toEqual([{ id: 1 }, { id: 2 }]);
		expect(rowsOf({ connections: [{ id: 1 }] })).toEqual([{ id: 1 }]);
		expect(rowsOf([{ id: 1 }])).toEqual([{ id: 1 }]);
		expect(rowsOf({ data: { id: 1 } })).toEqual([{ id: 1 }]);
		expect(rowsOf({ removed: true })).toEqual([{ removed: true }]);
		expect(rowsOf({ data: ['a'] })).toEqual([{ value: 'a' }]);
	});

	it('name the next page', () => {
		const link = '<https://kontobahn.example/v2/banking/events?limit=100&cursor=4%2B2&quelle=n8n>; rel="next"';
		expect(nextPage(link)).toEqual({ limit: '100', cursor: '4+2', quelle: 'n8n' });
		expect(nextPage(undefined)).toBeUndefined();
		expect(nextPage('<https://kontobahn.example/x?a=1>; rel="prev"')).toBeUndefined();
	});

	it('are simplified by paths', () => {
		const row = { id: '1', extra: { payer: 'Muster', time: null }, other: 1 };
		expect(simplified(row, ['id', 'extra.payer', 'extra.time', 'gone.gone'])).toEqual({
			id: '1',
			payer: 'Muster',
			time: null,
		});
	});

	it('take lists of texts as they come', () => {
		expect(texts('1, 2,\n3,')).toEqual(['1', '2', '3']);
		expect(texts([1, '2'])).toEqual(['1', '2']);
	});
});
