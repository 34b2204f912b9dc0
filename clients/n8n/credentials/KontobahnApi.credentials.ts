import type {
	IAuthenticateGeneric,
	ICredentialType,
	Icon,
	INodeProperties,
} from 'n8n-workflow';

export class KontobahnApi implements ICredentialType {
	name = 'kontobahnApi';

	displayName = 'Kontobahn API';

	icon: Icon = { light: 'file:../icons/kontobahn.svg', dark: 'file:../icons/kontobahn.dark.svg' };

	documentationUrl = 'https://kontobahn.example/docs/guide/n8n';

	properties: INodeProperties[] = [
		{
			displayName: 'Address',
			name: 'baseUrl',
			type: 'string',
			default: '',
			required: true,
			placeholder: 'https://konto.example.com',
			description:
				'Where your Kontobahn is, without a path. In a container, <code>127.0.0.1</code> is the container itself: use the name of the service. If n8n protects itself against requests to private addresses (<code>N8N_SSRF_PROTECTION_ENABLED</code>), allow this one there.',
		},
		{
			displayName: 'API Key',
			name: 'apiKey',
			type: 'string',
			typeOptions: { password: true },
			default: '',
			required: true,
			description:
				'A key with the scopes that the workflow needs and no more. With a key that may only read, payments and all other writing operations are refused by the service, whatever an agent tries.',
		},
	];

	authenticate: IAuthenticateGeneric = {
		type: 'generic',
		properties: { headers: { 'x-api-key': '={{$credentials.apiKey}}' } },
	};
}
