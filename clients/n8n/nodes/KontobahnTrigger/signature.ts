import { createHmac, timingSafeEqual } from 'crypto';

import type { IDataObject } from 'n8n-workflow';

export const TOLERANCE_SECONDS = 300;
export const REMEMBERED_SECONDS = 24 * 3600;
const PREFIX = 'whsec_';

/** Whether a delivery was signed with one of the secrets, over these very bytes, and not long ago. */
export function isSigned(body: Buffer, headers: IDataObject, secrets: string[], nowSeconds: number): boolean {
	const id = headers['webhook-id'];
	const sent = headers['webhook-timestamp'];
	const given = headers['webhook-signature'];
	if (typeof id !== 'string' || typeof sent !== 'string' || typeof given !== 'string') return false;
	if (!/^\d{1,12}$/.test(sent) || Math.abs(nowSeconds - Number(sent)) > TOLERANCE_SECONDS) return false;
	const content = Buffer.concat([Buffer.from(`${id}.${sent}.`), body]);
	const expected = secrets
		.filter((secret) => secret.startsWith(PREFIX))
		.map((secret) => Buffer.from(secret.slice(PREFIX.length), 'base64'))
		.map((key) => Buffer.from(`v1,${createHmac('sha256', key).update(content).digest('base64')}`));
	const offered = given.split(' ').map((signature) => Buffer.from(signature));
	return expected.some((own) =>
		offered.some((signature) => signature.length === own.length && timingSafeEqual(signature, own)),
	);
}

/** Notes an id and says whether it is new. What was noted a day ago is forgotten. */
export function isNew(seen: Record<string, number>, id: string, nowSeconds: number): boolean {
	for (const [known, at] of Object.entries(seen)) {
		if (nowSeconds - at > REMEMBERED_SECONDS) delete seen[known];
	}
	if (seen[id] !== undefined) return false;
	seen[id] = nowSeconds;
	return true;
}
