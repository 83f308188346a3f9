// The list of agents, and a new one.
import { html, useEffect, useRef, useState } from "../lib/preact.js";
import { admin, call, canWrite, get, query } from "../app/api.js";
import { go, to } from "../app/router.js";
import { t, titleOf } from "../app/text.js";
import { Badge, Button, Empty, Loaded, Page, Paging, reasonsOf, Search, State, useInterval, useLoad } from "../parts/basic.js";
import { toast } from "../parts/dialog.js";
import { Form, TextField, useForm } from "../parts/form.js";
import { Table } from "../parts/table.js";
import { AgentFields, bodyOf, empty, names, useChoices } from "./agentform.js";

const pageSize = 20;

/** DeployState loads the state of a deployment. */
export function DeployState({ agent, state }) {
  return state ? html`<${State} of=${state} />` : html`<span class="soft" aria-label=${t("state.loading")} key=${agent}>…</span>`;
}

function NewAgent() {
  const choices = useChoices();
  const form = useForm({ name: "", ...empty }, async (v) => {
    const made = await call("POST", admin("agents"), { name: v.name, ...bodyOf(v) });
    toast(t("form.created"));
    await go(to("agents", made.name), { force: true });
  });
  return html`<${Page} title=${t("agents.create")} crumbs=${[{ href: to("agents"), text: t("page.agents") }]}>
    <${Loaded} state=${choices}>${(found) => html`<${Form} form=${form} action=${t("agents.create")} names=${["name", ...names]} cancel=${() => go(to("agents"))}>
      <${TextField} form=${form} name="name" label=${t("field.name")} help=${t("agents.name_help")} pattern="[a-z0-9](-?[a-z0-9])*" maxlength="63" spellcheck="false" required />
      <${AgentFields} form=${form} choices=${found} brief />
    </${Form}>`}</${Loaded}></${Page}>`;
}

/** actions delete deployments, and agents that have none. */
const actions = (states) => [
  { text: t("agents.undeploy"), title: (n) => t("agents.undeploy_some", { n }), effect: t("agents.undeploy_effect"), can: (a) => !["not_deployed", "deleting", undefined].includes(states[a.name]), run: (a) => call("DELETE", admin("agents", a.name, "deploy")) },
  { text: t("action.delete"), title: (n) => t("agents.delete_some", { n }), effect: t("agents.delete_effect"), can: (a) => states[a.name] === "not_deployed", run: (a) => call("DELETE", admin("agents", a.name)) },
];

export function Agents({ place }) {
  const q = place.query.get("q") || "";
  const page = Number(place.query.get("page")) || 1;
  const creating = place.query.get("create") === "1" && canWrite();
  const state = useLoad(() => get(admin("agents") + query({ q, page, page_size: pageSize })), [q, page]);
  const [states, setStates] = useState({});
  const load = async () => {
    if (!state.data) return;
    const found = await Promise.all(state.data.items.map((a) => get(admin("agents", a.name, "deploy")).then((d) => [a.name, d.state], () => [a.name, "not_deployed"])));
    setStates(Object.fromEntries(found));
  };
  useEffect(() => { load(); }, [state.data]);
  useInterval(load, 5000);
  const file = useRef(null);
  const upload = async (event) => {
    const chosen = event.target.files[0];
    event.target.value = "";
    if (!chosen) return;
    try {
      const agent = await call("POST", admin("agents", "import"), await chosen.text(), { headers: { "Content-Type": "application/yaml" } });
      go(to("agents", agent.name));
    } catch (fault) {
      toast(reasonsOf(fault), { kind: "bad" });
    }
  };
  if (creating) return html`<${NewAgent} />`;
  return html`<${Page} title=${t("page.agents")} action=${canWrite() && html`
      <input type="file" hidden ref=${file} accept=".yaml,.yml" onChange=${upload} />
      <${Button} action=${() => file.current.click()}>${t("agents.import")}</${Button}>
      <a class="button primary" href=${to("agents") + "?create=1"}>${t("agents.create")}</a>`}>
    <div class="filters"><${Search} value=${q} /></div>
    <${Loaded} state=${state}>${(list) => (list.items.length ? html`<${Table} label=${t("page.agents")} rows=${list.items} total=${list.total} href=${(a) => to("agents", a.name)} select=${canWrite() && { name: titleOf, actions: actions(states), reload: state.reload }} columns=${[
      { text: t("field.name"), by: titleOf, cell: (a) => html`<strong>${titleOf(a)}</strong> <code class="soft">${a.name}</code>` },
      { text: t("field.model"), by: (a) => a.model, cell: (a) => html`<code>${a.model}</code>` },
      { text: t("list.state"), by: (a) => t("state." + (states[a.name] || "loading")), cell: (a) => html`<${DeployState} agent=${a.name} state=${states[a.name]} /> ${!a.enabled && html`<${Badge}>${t("state.disabled")}</${Badge}>`} ${a.isDefault && html`<${Badge} kind="info">${t("agents.default")}</${Badge}>`}` },
      { text: "", class: "end", cell: (a) => html`<a href=${to("chat", a.name)}>${t("page.chat")}</a>` },
    ]} /><${Paging} page=${page} size=${pageSize} total=${list.total} />` : html`<${Empty} text=${q ? t("list.nothing") : t("agents.none")}>${!q && canWrite() && html`<a class="button primary" href=${to("agents") + "?create=1"}>${t("agents.create")}</a>`}</${Empty}>`)}</${Loaded}>
  </${Page}>`;
}
