import { createHmac } from 'crypto';

import { describe, expect, it } from 'vitest';

import { isNew, isSigned, REMEMBERED_SECONDS, TOLERANCE_SECONDS } from '../nodes/KontobahnTrigger/signature';

const NOW = 1_790_000_000;
const KEY = Buffer.from('a key of more than twenty-four bytes');
const SECRET = `whsec_${KEY.toString('base64')}`;
const BODY = Buffer.from('{"event": "payment_update", "data": {"amount": 1.50}}');

function headers(body = BODY, at = NOW, key = KEY): Record<string, string> {
	const content = Buffer.concat([Buffer.from(`evt_1.${at}.`), body]);
	const signature = createHmac('sha256', key).update(content).digest('base64');
	return { 'webhook-id': 'evt_1', 'webhook-timestamp': String(at), 'webhook-signature': `v1,${signature}` };
}

describe('a delivery', () => {
	it('is taken if it was signed with one of the secrets', () => {
		expect(isSigned(BODY, headers(), [SECRET], NOW)).toBe(true);
		expect(isSigned(BODY, headers(), ['whsec_b3RoZXI=', SECRET], NOW)).toBe(true);
		const rotated = { ...headers(), 'webhook-signature': `v1,AAAA ${headers()['webhook-signature']}` };
		expect(isSigned(BODY, rotated, [SECRET], NOW)).toBe(true);
	});

	it('is refused if anything of it was changed, left out or made up', () => {
		const written = Buffer.from(JSON.stringify(JSON.parse(BODY.toString())));
		expect(isSigned(written, headers(), [SECRET], NOW)).toBe(false);
		for (const name of ['webhook-id', 'webhook-timestamp', 'webhook-signature']) {
			expect(isSigned(BODY, { ...headers(), [name]: undefined }, [SECRET], NOW)).toBe(false);
			expect(isSigned(BODY, { ...headers(), [name]: '1' }, [SECRET], NOW)).toBe(false);
		}
		expect(isSigned(BODY, headers(BODY, NOW, Buffer.from('another')), [SECRET], NOW)).toBe(false);
	});

	it('is refused without a secret, and with an empty one', () => {
		expect(isSigned(BODY, headers(), [], NOW)).toBe(false);
		expect(isSigned(BODY, headers(BODY, NOW, Buffer.from('')), [''], NOW)).toBe(false);
	});

	it('is refused when it is old, or of the future', () => {
		for (const away of [-1, 1]) {
			const edge = headers(BODY, NOW + away * TOLERANCE_SECONDS);
			const beyond = headers(BODY, NOW + away * (TOLERANCE_SECONDS + 1));
			expect(isSigned(BODY, edge, [SECRET], NOW)).toBe(true);
			expect(isSigned(BODY, beyond, [SECRET], NOW)).toBe(false);
		}
	});
});

describe('a repeated delivery', () => {
	it('is known for a day', () => {
		const seen = {};
		expect(isNew(seen, 'evt_1', NOW)).toBe(true);
		expect(isNew(seen, 'evt_1', NOW + REMEMBERED_SECONDS)).toBe(false);
		expect(isNew(seen, 'evt_2', NOW)).toBe(true);
		expect(isNew(seen, 'evt_1', NOW + REMEMBERED_SECONDS + 1)).toBe(true);
	});
});
