import * as hub from "./hub/api";
import * as runtime from "./runtime/api";

const env = process.env as Record<string, string>;
const send = globalThis.fetch;

// The generated functions send to the server of the page.
function serve(url: string, headers: Record<string, string>): void {
	globalThis.fetch = (path, init) => send(url + path, { ...init, headers: { ...(init?.headers as object), ...headers } });
}

async function calls() {
	serve(env.HUB, {});
	const login = await hub.login({ username: "admin", password: env.PASSWORD });
	if (login.status !== 200) throw new Error(JSON.stringify(login));
	serve(env.HUB, { authorization: "Bearer " + login.data.access_token });
	const agent = { name: env.NAME, providerId: env.PROVIDER, model: "m" };
	const created = await hub.createAgent(agent);
	const conflict = await hub.createAgent(agent);
	const listed = await hub.listAgents({ q: env.NAME });

	serve(env.RUNTIME, { "x-api-key": env.KEY });
	const health = await runtime.health();
	const ran = await runtime.startRun("bot", { message: "Hello", stream: false });
	const unknown = await runtime.startRun("nobody", { message: "Hello", stream: false });
	return {
		created: created.status === 201 && created.data.name,
		conflict: conflict.status === 409 && conflict.data.code,
		listed: listed.status === 200 && listed.data.items.map((agent) => agent.name),
		health: health.status === 200 && health.data.status,
		state: ran.status === 200 && typeof ran.data === "object" && ran.data.state,
		text: ran.status === 200 && typeof ran.data === "object" && ran.data.text,
		unknown: unknown.status === 404 && unknown.data.error,
	};
}

calls().then((results) => console.log(JSON.stringify(results)));
