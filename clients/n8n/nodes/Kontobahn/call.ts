import { createHash } from 'crypto';

import type { IDataObject, IExecuteFunctions, INodeExecutionData } from 'n8n-workflow';
import { NodeOperationError } from 'n8n-workflow';

import type { Answer, Call } from './request';
import { allRows, send } from './request';
import type { Field, Operation } from './table';
import { day, moment, readJson, readTypedJson, rowsOf, simplified, texts, writeJson } from './values';

/** Made so that a step which n8n repeats has the same key, and no other step has. */
export function idempotencyKey(...parts: Array<string | number>): string {
	return `n8n-${createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 48)}`;
}

/** Tells an execution from every other, but not from itself when it is retried: a retry has another id, and the same context and input. */
function originOf(context: IExecuteFunctions, itemIndex: number): string | undefined {
	const began = context.getExecutionContext?.()?.establishedAt;
	return began ? `${began} ${JSON.stringify(context.getInputData()[itemIndex].json)}` : context.getExecutionId();
}

function ownKey(context: IExecuteFunctions, itemIndex: number): string | undefined {
	const origin = originOf(context, itemIndex);
	if (!origin) return undefined;
	const run = Number(context.getWorkflowDataProxy(itemIndex).$runIndex ?? 0);
	const { id: workflow } = context.getWorkflow();
	return idempotencyKey(context.getInstanceId(), workflow ?? '', origin, context.getNode().id, run, itemIndex);
}

export function converted(field: Field, value: unknown, timezone: string): unknown {
	switch (field.kind) {
		case 'date':
			return day(value);
		case 'moment':
			return moment(value, timezone);
		case 'texts':
			return texts(value);
		case 'json':
			return typeof value === 'string' ? typedJson(field, value) : value;
		case 'amount':
			return String(value).trim();
		case 'text':
			return typeof value === 'object' ? (value as IDataObject).value : String(value);
		default:
			return value;
	}
}

/** What was typed as JSON; where a text will do as well, whatever was typed. */
function typedJson(field: Field, text: string): unknown {
	return field.plain && !/^\s*[{["]/.test(text) ? text : readTypedJson(text);
}

const isEmpty = (value: unknown) =>
	value === undefined || value === null || value === '' || (Array.isArray(value) && value.length === 0);

function valueOf(context: IExecuteFunctions, field: Field, itemIndex: number): unknown {
	const isShown = field.required ?? field.shown;
	const additional = context.getNodeParameter('additionalFields', itemIndex, {}) as IDataObject;
	const given = isShown ? context.getNodeParameter(field.name, itemIndex, '') : additional[field.name];
	const held = field.search && given !== null && typeof given === 'object' ? (given as IDataObject).value : given;
	if (isEmpty(held)) {
		if (field.required && !field.nullable) {
			throw new NodeOperationError(context.getNode(), `${field.label} is missing`, { itemIndex });
		}
		return field.required ? null : undefined;
	}
	try {
		return converted(field, held, context.getTimezone());
	} catch {
		throw new NodeOperationError(context.getNode(), `${field.label} is no valid JSON`, { itemIndex });
	}
}

async function callOf(context: IExecuteFunctions, operation: Operation, itemIndex: number): Promise<Call> {
	const call: Call = { method: operation.method, path: operation.path, query: {}, headers: {}, itemIndex };
	const [query, headers] = [call.query as IDataObject, call.headers as IDataObject];
	const body: IDataObject = {};
	for (const field of operation.fields) {
		const value = valueOf(context, field, itemIndex);
		if (value === undefined) continue;
		if (field.in === 'path') {
			call.path = call.path.replace(`{${field.name}}`, encodeURIComponent(String(value)));
		} else if (field.in === 'query') {
			query[field.name] = Array.isArray(value) ? value.join(',') : (value as string);
		} else {
			body[field.name] = value as IDataObject;
		}
	}
	if (operation.fields.some((field) => field.in === 'body')) {
		headers['content-type'] = 'application/json';
		call.body = writeJson(body, operation.numbers);
	}
	if (operation.upload) {
		const property = context.getNodeParameter('binaryPropertyName', itemIndex) as string;
		const { fileName } = context.helpers.assertBinaryData(itemIndex, property);
		call.body = await context.helpers.getBinaryDataBuffer(itemIndex, property);
		headers['content-type'] = 'application/octet-stream';
		if (fileName) headers['content-disposition'] = `attachment; filename*=UTF-8''${encodeURIComponent(fileName)}`;
	}
	if (operation.idempotent) {
		const { idempotencyKey: chosen } = context.getNodeParameter('additionalFields', itemIndex, {}) as IDataObject;
		const key = chosen ? String(chosen) : ownKey(context, itemIndex);
		if (key) headers['idempotency-key'] = key;
	}
	return call;
}

export function fileNameOf(disposition: unknown): string | undefined {
	const found = /filename\*=UTF-8''([^;]+)|filename="([^"]*)"/i.exec(String(disposition ?? ''));
	if (!found) return undefined;
	return found[1] ? decodeURIComponent(found[1]) : found[2];
}

async function file(context: IExecuteFunctions, answer: Answer, itemIndex: number): Promise<INodeExecutionData> {
	const property = context.getNodeParameter('outputPropertyName', itemIndex) as string;
	const type = String(answer.headers['content-type'] ?? 'application/octet-stream').split(';')[0];
	const name = fileNameOf(answer.headers['content-disposition']);
	const data = await context.helpers.prepareBinaryData(answer.bytes, name, type);
	return {
		json: { file_name: name ?? null, media_type: type, bytes: answer.bytes.length },
		binary: { [property]: data },
		pairedItem: { item: itemIndex },
	};
}

type Keep = (row: IDataObject) => INodeExecutionData;

async function rows(
	context: IExecuteFunctions,
	operation: Operation,
	call: Call,
	keep: Keep,
): Promise<INodeExecutionData[]> {
	if (!operation.list) {
		const { bytes } = await send(context, call);
		const found = bytes.length === 0 ? [{}] : rowsOf(readJson(bytes.toString('utf8')));
		return found.map((row) => keep(operation.note ? { ...row, note: operation.note } : row));
	}
	const itemIndex = call.itemIndex ?? 0;
	const all = context.getNodeParameter('returnAll', itemIndex, false) as boolean;
	const wanted = all ? Infinity : (context.getNodeParameter('limit', itemIndex, 50) as number);
	const limit: Call['query'] = operation.pageSize ? { limit: Math.min(operation.pageSize, wanted) } : {};
	const found = await allRows(context, { ...call, query: { ...limit, ...call.query } }, keep, wanted);
	if (all && operation.pageSize && !operation.paged && found.length >= operation.pageSize) {
		context.addExecutionHints?.({
			message: `Kontobahn lists at most ${operation.pageSize} here; there may be more.`,
			location: 'outputPane',
		});
	}
	return found;
}

/** Does what an operation says for one item. */
export async function perform(
	context: IExecuteFunctions,
	operation: Operation,
	itemIndex: number,
): Promise<INodeExecutionData[]> {
	const call = await callOf(context, operation, itemIndex);
	if (operation.download) return [await file(context, await send(context, call), itemIndex)];
	const kept = operation.simple;
	const isSimple = kept && (context.getNodeParameter('simplify', itemIndex, true) as boolean);
	return await rows(context, operation, call, (row) => ({
		json: isSimple ? simplified(row, kept) : row,
		pairedItem: { item: itemIndex },
	}));
}
