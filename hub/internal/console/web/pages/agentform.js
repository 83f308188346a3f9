// The fields of an agent.
import { html, useState } from "../lib/preact.js";
import { admin, all, call } from "../app/api.js";
import { t, titleOf } from "../app/text.js";
import { describeProbe, useLoad } from "../parts/basic.js";
import { AreaField, CheckField, NamesField, NumberField, SelectField, TextField } from "../parts/form.js";

const lists = ["tools", "skills", "mcps", "knowledge"];

/** useChoices loads what an agent can have. */
export const useChoices = () => useLoad(async () => {
  const found = await Promise.all(["providers", ...lists].map((kind) => all(admin(kind))));
  return Object.fromEntries(["providers", ...lists].map((kind, i) => [kind, found[i]]));
});

/** empty are the values of a new agent. */
export const empty = {
  title: "", titleEn: "", description: "", descriptionEn: "", icon: "", enabled: true, isDefault: false, providerId: "", model: "", systemPrompt: "", maxTurns: 10,
  maxOutputTokens: null, contextWindow: null, temperature: null, thinking: "", permissionMode: "default", approvers: "owner", limitTools: false, allowedTools: [], disallowedTools: [],
  tools: [], skills: [], mcps: [], knowledge: [], settingSources: [], sandboxMode: "", sandboxNetwork: "", sandboxRead: [], sandboxWrite: [], sandboxDomains: [],
  runTimeout: "", llmIdleTimeout: "", toolTimeout: "", subagents: "{}", commandEnv: "", outputSchema: "",
  "deployment.memory": "", "deployment.cpu": "", "deployment.processes": null, "deployment.replicas": null,
};

export const names = Object.keys(empty);

/** valuesOf returns the values of the form for a stored agent. */
export function valuesOf(a) {
  const sandbox = a.sandbox || {};
  const limits = a.limits || {};
  const deployment = a.deployment || {};
  return {
    ...empty, ...Object.fromEntries(names.filter((n) => n in a).map((n) => [n, a[n]])),
    thinking: a.thinking ? JSON.stringify(a.thinking) : "", limitTools: Array.isArray(a.allowedTools), allowedTools: a.allowedTools || [], knowledge: (a.knowledge || []).map((k) => k.name),
    sandboxMode: sandbox.mode === false ? "off" : sandbox.mode || "", sandboxNetwork: sandbox.network || "", sandboxRead: sandbox.read || [], sandboxWrite: sandbox.write || [], sandboxDomains: sandbox.domains || [],
    runTimeout: limits.runTimeout || "", llmIdleTimeout: limits.llmIdleTimeout || "", toolTimeout: limits.toolTimeout || "", subagents: JSON.stringify(a.subagents || {}, null, 2),
    outputSchema: a.outputSchema ? JSON.stringify(a.outputSchema, null, 2) : "",
    commandEnv: Object.keys(a.commandEnv || {}).length ? JSON.stringify(a.commandEnv, null, 2) : "",
    "deployment.memory": deployment.memory || "", "deployment.cpu": deployment.cpu || "", "deployment.processes": deployment.processes || null, "deployment.replicas": deployment.replicas || null,
  };
}

/** parse returns the value of a field with JSON, or an error in its place. */
function parse(field, text, otherwise) {
  if (!text.trim()) return otherwise;
  try {
    return JSON.parse(text);
  } catch {
    throw Object.assign(new Error(), { fields: { [field]: t("form.not_json") }, code: "validation_failed" });
  }
}

/** bodyOf returns the body of a request. before is the stored agent: what the form does not have stays. */
export function bodyOf(v, before = {}) {
  const { sandboxMode, sandboxNetwork, sandboxRead, sandboxWrite, sandboxDomains, runTimeout, llmIdleTimeout, toolTimeout, limitTools,
    "deployment.memory": memory, "deployment.cpu": cpu, "deployment.processes": processes, "deployment.replicas": replicas, ...plain } = v;
  const body = { ...plain };
  for (const kept of ["extraUserSkillDirs", "access"]) if (kept in before) body[kept] = before[kept];
  body.allowedTools = limitTools ? v.allowedTools : null;
  body.thinking = parse("thinking", v.thinking, null);
  body.subagents = parse("subagents", v.subagents, {});
  body.commandEnv = parse("commandEnv", v.commandEnv, {});
  body.outputSchema = parse("outputSchema", v.outputSchema, null);
  body.knowledge = v.knowledge.map((name) => (before.knowledge || []).find((k) => k.name === name) || { name });
  const sandbox = { mode: sandboxMode === "off" ? false : sandboxMode, network: sandboxNetwork, read: sandboxRead, write: sandboxWrite, domains: sandboxDomains };
  body.sandbox = sandboxMode || sandboxNetwork || sandboxRead.length || sandboxWrite.length || sandboxDomains.length ? sandbox : null;
  body.limits = { ...(before.limits || {}), runTimeout: runTimeout || null, llmIdleTimeout: llmIdleTimeout || null, toolTimeout: toolTimeout || null };
  body.deployment = { memory, cpu, processes, replicas };
  return body;
}

const option = (value, text = value) => ({ value, text });

/** @type {Map<string, Promise<any>>} */
const probes = new Map(); // by provider and version: each probe is an entry of the audit log

/** served asks a provider which models it serves, once. */
function served(provider) {
  const key = provider.id + " " + provider.version;
  if (!probes.has(key)) probes.set(key, call("POST", admin("providers", provider.id, "probe")).catch((fault) => {
    probes.delete(key); // the hub did not ask
    return fault;
  }));
  return /** @type {Promise<any>} */ (probes.get(key));
}

/** ModelField suggests the models in the list of the provider and, when it is used, those that the provider serves. Any text is possible. */
function ModelField({ form, provider }) {
  const [found, setFound] = useState(/** @type {{of: any, models: any[], note: string}} */ ({ of: null, models: [], note: "" }));
  const known = found.of === provider ? found : { models: [], note: "" };
  const load = async () => {
    if (!provider || provider.protocol === "demo" || found.of === provider) return;
    const show = (models, note) => setFound((now) => (now.of === provider ? { of: provider, models, note } : now));
    const asks = ["ready", "not_required"].includes(provider.keyState);
    setFound({ of: provider, models: [], note: t(asks ? "models.asking" : "models.no_key") });
    if (!asks) return;
    const result = await served(provider);
    if (!result.ok) show([], t("models.unknown", { reason: describeProbe(result) }));
    else if (!result.models?.length) show([], t("models.no_list"));
    else show(result.models, t("models.served", { n: result.models.length }));
  };
  const names = new Map([...(provider ? provider.models : []), ...known.models, ...(provider?.protocol === "demo" ? [{ id: "demo" }] : [])].map((m) => [m.id, m.displayName || m.id]));
  return html`<${TextField} form=${form} name="model" label=${t("field.model")} help=${known.note || t("field.model_help")} list="models" onFocus=${load} maxlength="200" spellcheck="false" required />
    <datalist id="models">${[...names].map(([id, text]) => html`<option key=${id} value=${id}>${text}</option>`)}</datalist>`;
}

/** AgentFields are all fields, or with brief those that a new agent needs. */
export function AgentFields({ form, choices, brief }) {
  const f = { form };
  const provider = choices.providers.find((p) => p.id === form.values.providerId);
  const models = provider ? provider.models : [];
  // The first model of another provider replaces one that was not typed.
  const choose = (id) => {
    const next = choices.providers.find((p) => p.id === id);
    form.set("providerId", id);
    if (!form.values.model || models.some((m) => m.id === form.values.model)) form.set("model", next && next.models.length ? next.models[0].id : "");
  };
  const of = (kind) => choices[kind].map((c) => option(c.name, titleOf(c)));
  const main = html`
    <${TextField} ...${f} name="title" label=${t("field.title")} maxlength="128" />
    <${AreaField} ...${f} name="description" label=${t("field.description")} rows="2" maxlength="2000" />
    <${SelectField} ...${f} name="providerId" label=${t("field.provider")} required onChange=${(e) => choose(e.target.value)} options=${[option("", t("form.choose")), ...choices.providers.filter((p) => p.enabled).map((p) => option(p.id, p.name))]} />
    <${ModelField} form=${form} provider=${provider} />
    <${AreaField} ...${f} name="systemPrompt" label=${t("field.systemPrompt")} rows=${brief ? 4 : 12} maxlength="200000" />`;
  if (brief) return main;
  return html`<fieldset><legend>${t("agent.part.basics")}</legend>${main}
      <div class="grid"><${TextField} ...${f} name="titleEn" label=${t("field.titleEn")} maxlength="128" /><${TextField} ...${f} name="icon" label=${t("field.icon")} maxlength="1000" /></div>
      <${AreaField} ...${f} name="descriptionEn" label=${t("field.descriptionEn")} rows="2" maxlength="2000" />
      <${CheckField} ...${f} name="enabled" label=${t("field.enabled")} help=${t("agent.enabled_help")} /><${CheckField} ...${f} name="isDefault" label=${t("field.isDefault")} /></fieldset>
    <fieldset><legend>${t("agent.part.uses")}</legend>
      ${lists.map((kind) => html`<${NamesField} ...${f} name=${kind} label=${t("page." + kind)} options=${of(kind)} />`)}
      <${AreaField} ...${f} name="subagents" label=${t("field.subagents")} help=${t("field.subagents_help")} rows="6" code /></fieldset>
    <fieldset><legend>${t("agent.part.permissions")}</legend>
      <${SelectField} ...${f} name="permissionMode" label=${t("field.permissionMode")} help=${t("mode." + form.values.permissionMode)} options=${["default", "acceptEdits", "plan", "dontAsk", "auto", "bypassPermissions"].map((m) => option(m))} />
      <${SelectField} ...${f} name="approvers" label=${t("field.approvers")} help=${t("field.approvers_help")} options=${["owner", "maintainer", "admin"].map((a) => option(a, t("approvers." + a)))} />
      <${CheckField} ...${f} name="limitTools" label=${t("field.limitTools")} help=${t("field.limitTools_help")} />
      ${form.values.limitTools && html`<${NamesField} ...${f} name="allowedTools" label=${t("field.allowedTools")} help=${t("field.pattern_help")} />`}
      <${NamesField} ...${f} name="disallowedTools" label=${t("field.disallowedTools")} help=${t("field.pattern_help")} /></fieldset>
    <fieldset><legend>${t("agent.part.sandbox")}</legend><div class="grid">
      <${SelectField} ...${f} name="sandboxMode" label=${t("field.sandboxMode")} options=${[option("", t("form.default")), option("auto"), option("required"), option("off")]} />
      <${SelectField} ...${f} name="sandboxNetwork" label=${t("field.sandboxNetwork")} options=${[option("", t("form.default")), option("proxy"), option("none"), option("all")]} /></div>
      <${NamesField} ...${f} name="sandboxRead" label=${t("field.sandboxRead")} /><${NamesField} ...${f} name="sandboxWrite" label=${t("field.sandboxWrite")} /><${NamesField} ...${f} name="sandboxDomains" label=${t("field.sandboxDomains")} />
      <${AreaField} ...${f} name="commandEnv" label=${t("field.commandEnv")} help=${t("field.commandEnv_help")} rows="4" code /></fieldset>
    <fieldset><legend>${t("agent.part.limits")}</legend><div class="grid">
      <${NumberField} ...${f} name="maxTurns" label=${t("field.maxTurns")} min="1" max="10000" /><${NumberField} ...${f} name="maxOutputTokens" label=${t("field.maxOutputTokens")} min="1" />
      <${NumberField} ...${f} name="contextWindow" label=${t("field.contextWindow")} min="1" /><${NumberField} ...${f} name="temperature" label=${t("field.temperature")} min="0" max="2" step="any" />
      <${TextField} ...${f} name="runTimeout" label=${t("field.runTimeout")} placeholder="30m" /><${TextField} ...${f} name="llmIdleTimeout" label=${t("field.llmIdleTimeout")} placeholder="2m" />
      <${TextField} ...${f} name="toolTimeout" label=${t("field.toolTimeout")} placeholder="2m" /><${TextField} ...${f} name="thinking" label=${t("field.thinking")} placeholder='{"budgetTokens": 4096}' spellcheck="false" /></div>
      <${AreaField} ...${f} name="outputSchema" label=${t("field.outputSchema")} help=${t("field.outputSchema_help")} rows="6" code /></fieldset>
    <fieldset><legend>${t("agent.part.deployment")}</legend><p class="help">${t("agent.deployment_help")}</p><div class="grid">
      <${TextField} ...${f} name="deployment.memory" label=${t("field.deployMemory")} placeholder="512Mi" spellcheck="false" /><${TextField} ...${f} name="deployment.cpu" label=${t("field.deployCpu")} placeholder="500m" spellcheck="false" />
      <${NumberField} ...${f} name="deployment.processes" label=${t("field.deployProcesses")} min="16" max="4194304" /><${NumberField} ...${f} name="deployment.replicas" label=${t("field.deployReplicas")} min="1" max="100" /></div></fieldset>`;
}
