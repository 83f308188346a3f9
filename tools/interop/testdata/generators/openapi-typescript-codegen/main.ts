import * as hub from "./hub";
import * as runtime from "./runtime";

const env = process.env as Record<string, string>;

async function calls() {
	hub.OpenAPI.BASE = env.HUB;
	const login = await hub.AuthService.login({ username: "admin", password: env.PASSWORD });
	hub.OpenAPI.TOKEN = login.access_token;
	const agent = { name: env.NAME, providerId: env.PROVIDER, model: "m" };
	const created = await hub.AgentsService.createAgent(agent);
	const conflict = await hub.AgentsService.createAgent(agent).catch((error: hub.ApiError) => error.body);
	const listed = await hub.AgentsService.listAgents(1, undefined, 20, env.NAME);

	runtime.OpenAPI.BASE = env.RUNTIME;
	runtime.OpenAPI.HEADERS = { "x-api-key": env.KEY };
	const health = await runtime.HealthService.health();
	const ran = await runtime.RunsService.startRun("bot", { message: "Hello", stream: false });
	const unknown = await runtime.RunsService.startRun("nobody", { message: "Hello", stream: false }).catch((error: runtime.ApiError) => error.body);
	return {
		created: created.name,
		conflict: conflict.code,
		listed: listed.items.map((agent) => agent.name),
		health: health.status,
		state: ran.state,
		text: ran.text,
		unknown: unknown.error,
	};
}

calls().then((results) => console.log(JSON.stringify(results)));
