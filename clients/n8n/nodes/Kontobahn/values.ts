import type { IDataObject } from 'n8n-workflow';

const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
const SAFE_INTEGER = /^-?\d{1,15}$/;
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
// Marks a number whose digits are to be written again exactly as they were read.
const EXACT = '\u0000number:';

function parsed(text: string, prefix: string): unknown {
	return JSON.parse(
		text.replace(TOKEN, (token) =>
			token.startsWith('"') || SAFE_INTEGER.test(token)
				? token
				: JSON.stringify(prefix + token),
		),
	);
}

/** Reads JSON with every amount as the text that the service wrote: 1234567.10 stays "1234567.10". */
export function readJson(text: string): unknown {
	return parsed(text, '');
}

/** Reads JSON that somebody has typed, so that `writeJson` writes its numbers digit by digit. */
export function readTypedJson(text: string): unknown {
	return parsed(text, EXACT);
}

/** Writes JSON. Texts in the fields that hold amounts become numbers, digit by digit. */
export function writeJson(value: unknown, amounts: string[] = [], name = ''): string {
	if (typeof value === 'string') {
		const digits = value.startsWith(EXACT) ? value.slice(EXACT.length) : value.trim();
		const isNumber = value.startsWith(EXACT) || amounts.includes(name);
		return isNumber && NUMBER.test(digits) ? digits : JSON.stringify(value);
	}
	if (Array.isArray(value)) {
		return `[${value.map((item) => writeJson(item, amounts, name)).join(',')}]`;
	}
	if (value !== null && typeof value === 'object' && !(value instanceof Date)) {
		const parts = Object.entries(value)
			.filter(([, inner]) => inner !== undefined)
			.map(([key, inner]) => `${JSON.stringify(key)}:${writeJson(inner, amounts, key)}`);
		return `{${parts.join(',')}}`;
	}
	return JSON.stringify(value ?? null);
}

function asText(value: unknown): string {
	if (value instanceof Date) return value.toISOString();
	const moment = value as { toISO?: () => string };
	return (typeof moment?.toISO === 'function' ? moment.toISO() : String(value)).trim();
}

/** The day of what a date field holds: picked, typed, or a date of an expression. */
export function day(value: unknown): string {
	const text = asText(value);
	return /^\d{4}-\d\d-\d\dT/.test(text) ? text.slice(0, 10) : text;
}

/** A moment with its zone; without one, it is the workflow's. */
export function moment(value: unknown, timezone: string): string {
	const text = asText(value).replace(' ', 'T');
	if (!/^\d{4}-\d\d-\d\dT[\d:.]+$/.test(text)) return text;
	const assumed = new Date(`${text}Z`);
	const shown = (at: Date) => {
		const parts = new Intl.DateTimeFormat('en-US', {
			timeZone: timezone,
			timeZoneName: 'longOffset',
		}).formatToParts(at);
		const name = parts.find(({ type }) => type === 'timeZoneName')?.value.slice(3) ?? '';
		return name === '' ? '+00:00' : name;
	};
	// The offset at the moment itself, not at the moment of the same name in UTC.
	const near = new Date(`${text}${shown(assumed)}`);
	return `${text}${shown(near)}`;
}

export function texts(value: unknown): string[] {
	const items = Array.isArray(value) ? value : String(value).split(/[,\n]/);
	return items.map((item) => String(item).trim()).filter((item) => item !== '');
}

export function at(row: unknown, path: string): unknown {
	return path
		.split('.')
		.reduce<unknown>((inner, name) => (inner as IDataObject | null | undefined)?.[name], row);
}

/** Only the fields that are wanted; what stood deeper is named by the last part of its path. */
export function simplified(row: IDataObject, paths: string[]): IDataObject {
	const kept: IDataObject = {};
	for (const path of paths) {
		const value = at(row, path);
		if (value !== undefined) kept[path.split('.').pop() as string] = value as IDataObject;
	}
	return kept;
}

/** The rows of an answer, or the one thing that it holds. */
export function rowsOf(answer: unknown): IDataObject[] {
	const whole = answer as IDataObject;
	const held = Array.isArray(answer) ? answer : (whole?.data ?? whole?.connections ?? whole);
	const rows = Array.isArray(held) ? held : [held];
	return rows.map((row) =>
		row !== null && typeof row === 'object' && !Array.isArray(row)
			? (row as IDataObject)
			: { value: row },
	);
}

/** The query of the next page, from the header `Link`; none on the last page. */
export function nextPage(link: unknown): Record<string, string> | undefined {
	const found = /<([^>]*)>\s*;\s*rel="?next"?/.exec(String(link ?? ''));
	if (!found) return undefined;
	const query: Record<string, string> = {};
	for (const part of (found[1].split('?')[1] ?? '').split('#')[0].split('&')) {
		const [name, value = ''] = part.split('=').map((text) => decodeURIComponent(text.replace(/\+/g, ' ')));
		if (name) query[name] = value;
	}
	return query;
}
