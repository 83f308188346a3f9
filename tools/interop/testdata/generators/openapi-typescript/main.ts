import createClient from "openapi-fetch";
import type { paths as HubPaths } from "./hub/api";
import type { paths as RuntimePaths } from "./runtime/api";

const env = process.env as Record<string, string>;

async function calls() {
	const hub = createClient<HubPaths>({ baseUrl: env.HUB });
	const login = await hub.POST("/auth/login", { body: { username: "admin", password: env.PASSWORD } });
	const headers = { authorization: "Bearer " + login.data?.access_token };
	const body = { name: env.NAME, providerId: env.PROVIDER, model: "m" };
	const created = await hub.POST("/api/v1/admin/agents", { headers, body });
	const conflict = await hub.POST("/api/v1/admin/agents", { headers, body });
	const listed = await hub.GET("/api/v1/admin/agents", { headers, params: { query: { q: env.NAME } } });

	const runtime = createClient<RuntimePaths>({ baseUrl: env.RUNTIME, headers: { "x-api-key": env.KEY } });
	const health = await runtime.GET("/health");
	const run = { message: "Hello", stream: false };
	const ran = await runtime.POST("/v1/agents/{agentId}/runs", { params: { path: { agentId: "bot" } }, body: run });
	const unknown = await runtime.POST("/v1/agents/{agentId}/runs", { params: { path: { agentId: "nobody" } }, body: run });
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
