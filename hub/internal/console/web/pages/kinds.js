// What differs between the lists and forms of providers and components.
import { admin, all } from "../app/api.js";
import { html } from "../lib/preact.js";
import { to } from "../app/router.js";
import { descriptionOf, t, titleOf } from "../app/text.js";
import { useLoad } from "../parts/basic.js";

const byName = (item) => item.name;
const option = (value, text = value) => ({ value, text });
const name = { name: "name", fixed: true, help: "agents.name_help", pattern: "[a-z0-9](-?[a-z0-9])*", maxlength: "63", spellcheck: "false", required: true };
const title = { name: "title", maxlength: "128" };
const description = { name: "description", type: "area", rows: "3", maxlength: "2000" };
const enabled = { name: "enabled", type: "check", initial: true };
const json = (field) => ({ type: "area", code: true, rows: "4", value: (item) => (item[field] && Object.keys(item[field]).length ? JSON.stringify(item[field], null, 2) : ""), parse: (text) => (text && text.trim() ? JSON.parse(text) : null) });

/** useOptions loads what a form chooses from. */
export const useOptions = (kind) => useLoad(async () => (kind.options ? kind.options() : {}));

export const kinds = {
  providers: {
    idOf: (p) => p.id, readOnly: (p) => p.shared,
    columns: [{ text: t("field.protocol"), by: (p) => t("protocol." + p.protocol), cell: (p) => t("protocol." + p.protocol) }, { text: t("field.baseUrl"), by: (p) => p.baseUrl, cell: (p) => p.baseUrl && html`<code class="long">${p.baseUrl}</code>` }, { text: t("provider.models"), class: "num", by: (p) => p.models.length, cell: (p) => p.models.length }],
    facts: (p) => [[t("field.protocol"), t("protocol." + p.protocol)], p.shared && p.models.length > 0 && [t("provider.models"), p.models.map((m) => html`<code>${m.id}</code> `)], p.shared && [t("provider.shared"), t("provider.shared_text")]],
    fields: [
      { name: "name", maxlength: "128", required: true },
      { name: "protocol", type: "select", initial: "anthropic", choices: () => ["anthropic", "openai"].map((v) => option(v, t("protocol." + v))) },
      { name: "baseUrl", help: "provider.baseUrl_help", maxlength: "2048", spellcheck: "false", placeholder: "https://api.example.com/v1" },
      { name: "authStyle", type: "select", choices: () => [option("", t("form.default")), ...["api_key", "bearer", "none"].map((v) => option(v, t("auth." + v)))] },
      { name: "apiKey", help: "provider.apiKey_help", helpNew: "provider.apiKey_new", type: "text", autocomplete: "off", spellcheck: "false", maxlength: "4096", value: () => "", parse: (text) => (text ? text : undefined) },
      { name: "models", type: "area", rows: "4", code: true, help: "provider.models_help", value: (p) => (p.models || []).map((m) => m.id + (m.displayName ? " " + m.displayName : "")).join("\n"),
        parse: (text) => text.split("\n").map((line) => line.trim()).filter(Boolean).map((line) => { const [id, ...rest] = line.split(/\s+/); return rest.length ? { id, displayName: rest.join(" ") } : { id }; }) },
      { name: "headers", ...json("headers"), help: "provider.headers_help" },
      { name: "body", ...json("body"), help: "provider.body_help" },
      enabled,
    ],
  },
  tools: {
    idOf: byName, accept: ".ts,.mts,.js,.mjs", readOnly: (x) => x.source === "builtin",
    columns: [{ text: t("field.source"), by: (x) => t("state." + x.source), cell: (x) => t("state." + x.source) }, { text: t("field.description"), cell: (x) => descriptionOf(x).slice(0, 140) }],
    facts: (x) => [[t("field.name"), html`<code>${x.name}</code>`], [t("field.source"), t("state." + x.source)], x.fileName && [t("field.fileName"), html`<code>${x.fileName}</code>`]],
    fields: [title, description, { name: "descriptionEn", type: "area", rows: "3", maxlength: "2000" }],
  },
  skills: {
    idOf: byName, accept: ".zip,.gz,.tgz,.md", types: ["expert", "community"],
    columns: [{ text: t("field.type"), by: (s) => t("skill." + s.type), cell: (s) => t("skill." + s.type) }, { text: t("field.description"), cell: (s) => descriptionOf(s).slice(0, 140) }],
    facts: (s) => [[t("field.name"), html`<code>${s.name}</code>`], [t("field.type"), t("skill." + s.type)]],
    fields: [{ name: "type", type: "select", choices: () => [option("expert", t("skill.expert")), option("community", t("skill.community"))] }, title, description, { name: "descriptionEn", type: "area", rows: "3", maxlength: "2000" }],
  },
  mcps: {
    idOf: byName,
    columns: [{ text: t("field.transport"), by: (m) => m.transport, cell: (m) => m.transport }, { text: t("mcp.target"), by: (m) => m.command || m.url, cell: (m) => html`<code class="long">${m.command || m.url}</code>` }],
    facts: (m) => [[t("field.transport"), m.transport]],
    fields: [
      name, title, description,
      { name: "transport", type: "select", initial: "stdio", choices: () => [option("stdio"), option("http"), option("sse")] },
      { name: "command", when: (v) => v.transport === "stdio", spellcheck: "false" },
      { name: "args", type: "area", code: true, rows: "3", when: (v) => v.transport === "stdio", help: "mcp.args_help", value: (m) => (m.args || []).join("\n"), parse: (text) => (text ? text.split("\n") : []) },
      { name: "env", ...json("env"), when: (v) => v.transport === "stdio", help: "mcp.secret_help" },
      { name: "url", when: (v) => v.transport !== "stdio", spellcheck: "false", placeholder: "https://mcp.example.com/mcp" },
      { name: "headers", ...json("headers"), when: (v) => v.transport !== "stdio", help: "mcp.secret_help" },
      { name: "cwd", when: (v) => v.transport === "stdio", spellcheck: "false" },
      { name: "timeout", placeholder: "2m" },
      { name: "sandbox", ...json("sandbox"), when: (v) => v.transport === "stdio" },
      { name: "oauth", ...json("oauth"), when: (v) => v.transport !== "stdio" },
      { name: "instructions", type: "check", help: "mcp.instructions_help" },
      enabled,
    ],
  },
  knowledge: {
    idOf: byName,
    columns: [{ text: t("field.datasetId"), by: (k) => k.datasetId, cell: (k) => html`<code>${k.datasetId}</code>` }, { text: t("field.description"), cell: (k) => descriptionOf(k).slice(0, 140) }],
    facts: (k) => [[t("field.name"), html`<code>${k.name}</code>`]],
    fields: [name, title, { name: "datasetId", maxlength: "128", spellcheck: "false", required: true, help: "knowledge.dataset_help" }, { ...description, help: "knowledge.description_help" }, enabled],
  },
  scenes: {
    idOf: byName, options: async () => ({ agents: await all(admin("agents")) }),
    columns: [{ text: t("chat.agent"), by: (s) => s.agentName, cell: (s) => html`<a href=${to("agents", s.agentName)}>${s.agentName}</a>` }, { text: t("field.order"), class: "num", by: (s) => s.order, cell: (s) => s.order }],
    facts: (s) => [[t("chat.agent"), html`<a href=${to("agents", s.agentName)}>${s.agentName}</a>`]],
    fields: [
      name, title, { name: "titleEn", maxlength: "128" }, description, { name: "descriptionEn", type: "area", rows: "3", maxlength: "2000" },
      { name: "agentName", type: "select", required: true, choices: (o) => [option("", t("form.choose")), ...o.agents.map((a) => option(a.name, titleOf(a)))] },
      { name: "prompt", type: "area", rows: "6" }, { name: "icon", maxlength: "1000" }, { name: "order", type: "number", initial: 0 }, enabled,
    ],
  },
};
