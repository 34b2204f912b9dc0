import type { ICredentialsDecrypted } from 'n8n-workflow';
import { describe, expect, it, vi } from 'vitest';

import { CREDENTIAL_TEST, failureOf, faultOf, meaningOf } from '../nodes/Kontobahn/credential';

const RIGHT = { statusCode: 200, headers: {}, body: { data: { organization: 'Muster GmbH' } } };

async function tried(baseUrl: string, request: () => Promise<unknown>) {
	const asked = vi.fn(request);
	const credential = { id: '1', name: 'n', type: 't', data: { baseUrl, apiKey: 'kb_live_1' } } as ICredentialsDecrypted;
	const result = await CREDENTIAL_TEST.kontobahnApiTest.call({ helpers: { request: asked } } as never, credential);
	return { ...result, asked };
}

describe('a credential', () => {
	it('is right if a Kontobahn answers that knows the key', async () => {
		const { status, asked } = await tried('https://konto.example.com/', async () => RIGHT);
		expect(status).toBe('OK');
		expect(asked).toHaveBeenCalledWith(
			expect.objectContaining({
				uri: 'https://konto.example.com/v2/assistants/access',
				headers: { 'x-api-key': 'kb_live_1' },
				followRedirect: false,
			}),
		);
	});

	it.each(['http://konto.example.com', 'http://8.8.8.8', 'http://172.32.0.1', 'http://10.example.com', 'http://[2001:db8::1]:80'])(
		'is not sent in the clear to %s',
		async (address) => {
			const { status, message, asked } = await tried(address, async () => RIGHT);
			expect([status, message]).toEqual(['Error', expect.stringContaining('begins with http:')]);
			expect(asked).not.toHaveBeenCalled();
		},
	);

	it.each(['https://konto.example.com', 'http://127.0.0.1:8080', 'http://localhost', 'http://kontobahn:8080/', 'http://[::1]:80',
		'http://10.0.0.7', 'http://172.31.0.1', 'http://192.168.1.1', 'http://100.64.0.9', 'http://konto.internal', 'http://[fd00::1]'])(
		'may be sent to %s',
		(address) => {
			expect(faultOf(address)).toBeUndefined();
		},
	);

	it.each(['', 'konto.example.com', ' https://konto.example.com', 'ftp://konto.example.com', 'https://', 'https://a@b.example', 'https://a?b'])(
		'has no address in "%s"',
		(address) => {
			expect(faultOf(address)).toContain('is no address');
		},
	);

	it('has a sentence of its own for each thing that can be wrong', async () => {
		const blocked = { name: 'NodeApiError', cause: { name: 'SsrfBlockedIpError', message: 'x' } };
		const sentences = [
			failureOf({ code: 'ECONNREFUSED' }),
			failureOf(blocked),
			failureOf({ message: 'x', cause: { code: 'DEPTH_ZERO_SELF_SIGNED_CERT' } }),
			meaningOf({ ...RIGHT, statusCode: 301, headers: { location: 'https://konto.example.com/' } }),
			meaningOf({ ...RIGHT, statusCode: 401 }),
			meaningOf({ ...RIGHT, statusCode: 403 }),
			meaningOf({ ...RIGHT, statusCode: 429 }),
			meaningOf({ ...RIGHT, statusCode: 404 }),
			meaningOf({ ...RIGHT, statusCode: 502 }),
			faultOf('http://konto.example.com'),
			faultOf('konto.example.com'),
		];
		expect(new Set(sentences).size).toBe(sentences.length);
		expect(sentences[0]).toMatch(/^Nothing answers at this address \(ECONNREFUSED\)/);
		expect(sentences[1]).toContain('N8N_SSRF_ALLOWED_HOSTNAMES');
		expect(sentences[2]).toContain('certificate');
		expect(sentences[3]).toContain('https://konto.example.com/');
		expect(meaningOf({ ...RIGHT, body: '<html>' })).toBe(sentences[7]);
		expect(meaningOf({ ...RIGHT, body: { data: [] } })).toBe(sentences[7]);
		expect((await tried('https://konto.example.com', async () => await Promise.reject(blocked))).message).toBe(sentences[1]);
	});
});
