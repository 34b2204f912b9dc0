import type { IDataObject, IHttpRequestOptions } from 'n8n-workflow';

export interface Reply {
	statusCode?: number;
	headers?: IDataObject;
	body?: string | Buffer;
}

/** Stands for a Kontobahn: keeps what it was asked, and says what it is told to say. */
export class Service {
	asked: IHttpRequestOptions[] = [];

	constructor(private readonly reply: (asked: IHttpRequestOptions, number: number) => Reply) {}

	answer = async (_credential: string, asked: IHttpRequestOptions) => {
		this.asked.push(asked);
		const { statusCode = 200, headers = {}, body = '{}' } = this.reply(asked, this.asked.length - 1);
		return { statusCode, headers, body: Buffer.from(body as string) };
	};

	get calls(): string[] {
		return this.asked.map(({ method, url }) => `${method} ${url.replace('https://konto.example.com', '')}`);
	}
}

/** Stands for what n8n hands to a node. */
export function contextOf(service: Service, parameters: IDataObject, more: object = {}): never {
	const context = {
		getCredentials: async () => ({ baseUrl: 'https://konto.example.com//', apiKey: 'kb_live_1' }),
		getNode: () => ({ id: 'node', name: 'Kontobahn', type: 'kontobahn', typeVersion: 1, position: [0, 0], parameters: {} }),
		getNodeParameter: (name: string, second?: unknown, third?: unknown) =>
			parameters[name] ?? (typeof second === 'number' ? third : second),
		getCurrentNodeParameter: (name: string) => parameters[name],
		getInputData: () => [{ json: {} }],
		getWorkflow: () => ({ id: 'workflow', name: 'Flow' }),
		getWorkflowDataProxy: () => ({ $runIndex: 0 }),
		getInstanceId: () => 'instance',
		getExecutionId: () => '1',
		getExecutionContext: () => ({ establishedAt: 1 }),
		getTimezone: () => 'Europe/Berlin',
		getMode: () => 'trigger',
		continueOnFail: () => false,
		helpers: { httpRequestWithAuthentication: service.answer },
		...more,
	};
	return context as never;
}
