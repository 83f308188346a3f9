import * as hub from "./hub";
import { client as hubClient } from "./hub/client.gen";
import * as runtime from "./runtime";
import { client as runtimeClient } from "./runtime/client.gen";

const env = process.env as Record<string, string>;

async function calls() {
	hubClient.setConfig({ baseUrl: env.HUB });
	const login = await hub.login({ body: { username: "admin", password: env.PASSWORD } });
	hubClient.setConfig({ auth: login.data?.access_token });
	const body = { name: env.NAME, providerId: env.PROVIDER, model: "m" };
	const created = await hub.createAgent({ body });
	const conflict = await hub.createAgent({ body });
	const listed = await hub.listAgents({ query: { q: env.NAME } });

	runtimeClient.setConfig({ baseUrl: env.RUNTIME, auth: env.KEY });
	const health = await runtime.health();
	const run = { message: "Hello", stream: false };
	const ran = await runtime.startRun({ path: { agentId: "bot" }, body: run });
	const unknown = await runtime.startRun({ path: { agentId: "nobody" }, body: run });
	return {
		created: created.data?.name,
		conflict: conflict.error?.code,
		listed: listed.data?.items.map((agent) => agent.name),
		health: health.data?.status,
		state: typeof ran.data === "object" && ran.data.state,
		text: typeof ran.data === "object" && ran.data.text,
		unknown: unknown.error?.error,
	};
}

calls().then((results) => console.log(JSON.stringify(results)));
