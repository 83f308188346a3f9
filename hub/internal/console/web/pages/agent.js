// One agent: overview, configuration, deployments, logs and access.
import { html, useState } from "../lib/preact.js";
import { admin, all, call, canWrite, get, isAdmin, path, query, request, save } from "../app/api.js";
import { go, setQuery, to } from "../app/router.js";
import { compact, descriptionOf, t, titleOf } from "../app/text.js";
import { Badge, Button, Copy, Empty, Facts, Loaded, LoadedPage, Page, State, Tabs, Time, useInterval, useLoad } from "../parts/basic.js";
import { Connect } from "../parts/connect.js";
import { confirm, Dialog, open, toast } from "../parts/dialog.js";
import { Diff, Log } from "../parts/diff.js";
import { CheckField, Form, NamesField, useForm } from "../parts/form.js";
import { Bars, daily } from "../parts/chart.js";
import { each } from "../parts/part.js";
import { Table } from "../parts/table.js";
import { AgentFields, bodyOf, names, useChoices, valuesOf } from "./agentform.js";

const day = (offset) => new Date(Date.now() + offset * 86_400_000).toISOString().slice(0, 10);
const changing = ["deploying", "starting", "stopping", "deleting"];
const pretty = (value) => JSON.stringify(value, null, 2);

/** comparable returns what both an agent and the detail of its runtime have. */
function comparable(a) {
  const servers = a.mcps || Object.keys(a.mcpServers || {});
  return pretty({
    title: a.title !== undefined ? a.title || a.name : a.name, model: a.model, maxTurns: a.maxTurns, permissionMode: a.permissionMode || "default", allowedTools: a.allowedTools ?? null, disallowedTools: a.disallowedTools || [],
    mcpServers: [...servers].sort(), subagents: Object.fromEntries(Object.entries(a.subagents || {}).sort().map(([n, s]) => [n, s.description])),
    settingSources: a.settingSources || [],
  });
}

/** DeployDialog shows what changes, then each step. */
function DeployDialog({ agent, deployment, close }) {
  const running = deployment.servingRevision > 0;
  const detail = useLoad(async () => (running ? get("/api/v1" + path("agents", agent.name, "detail")).catch(() => null) : null));
  const [started, setStarted] = useState(false);
  const [now, setNow] = useState(deployment);
  useInterval(async () => setNow(await get(admin("agents", agent.name, "deploy"))), started ? 400 : 0);
  const settled = started && now.revision > (deployment.revision || 0) && !changing.includes(now.state) && (now.state === "failed" || now.servingRevision === now.revision || now.conditions.some((c) => c.type === "Progressing" && !c.status));
  const unchanged = running && !deployment.configDrift;
  const deploy = async () => {
    await call("POST", admin("agents", agent.name, "deploy"), unchanged ? { force: true } : {});
    setStarted(true);
  };
  return html`<${Dialog} wide title=${t("agent.deploy_title", { name: titleOf(agent) })} onClose=${() => close()}>
    ${!started && html`<${Loaded} state=${{ ...detail, data: detail.loading ? null : { detail: detail.data } }}>${(d) => html`
      <p>${running ? (unchanged ? t("agent.deploy_unchanged") : t("agent.deploy_text", { n: deployment.servingRevision })) : t("agent.deploy_first")}</p>
      ${d.detail ? html`<${Diff} from=${comparable(d.detail)} to=${comparable(agent)} label=${t("agent.changes")} /><p class="soft">${t("agent.diff_note")}</p>` : html`<pre class="lines" tabindex="0">${comparable(agent)}</pre>`}`}</${Loaded}>`}
    ${started && html`<div role="status"><p><${State} of=${now.state} /> ${settled && now.servingRevision === now.revision && t("agent.deployed")}</p><${Conditions} items=${now.conditions} error=${now.error} />${now.error && html`<p class="error">${now.error}</p>`}</div>`}
    <div class="buttons">${started ? html`<${Button} kind="primary" action=${() => close()}>${settled ? t("action.close") : t("agent.background")}</${Button}>`
      : html`<${Button} action=${() => close()}>${t("action.cancel")}</${Button}><${Button} kind="primary" disabled=${detail.loading} action=${deploy}>${unchanged ? t("agent.redeploy") : t("agent.deploy")}</${Button}>`}</div>
  </${Dialog}>`;
}

/** Conditions lists the conditions of a deployment. A message that the error or an earlier condition has is not repeated. */
const Conditions = ({ items, error }) => html`<ul class="conditions">${each(items, "li", (c) => html`<li><${Badge} kind=${"state " + (c.type === "restored" ? "info" : c.status ? "ok" : "bad")}>${t("condition." + c.type + (c.status ? ".yes" : ".no"))}</${Badge}> <span class="soft"><${Time} at=${c.changedAt} /></span>${c.message && c.message !== error && items.find((o) => o.message === c.message) === c && html`<p>${c.message}</p>`}</li>`, (c) => c.type)}</ul>`;

function Overview({ agent, deployment }) {
  const detail = useLoad(() => (deployment.servingRevision ? get("/api/v1" + path("agents", agent.name, "detail")).catch(() => null) : null), [deployment.servingRevision]);
  const provider = useLoad(() => get("/api/v1" + path("providers", agent.providerId)), [agent.providerId]);
  const week = useLoad(() => {
    if (!canWrite()) return null;
    return get("/api/v1/admin/usage" + query({ agent: agent.name, by: "day", from: day(-6), to: day(0), page_size: 100 }));
  }, [agent.name]);
  const servers = (detail.data && detail.data.mcpServers) || {};
  const [key, setKey] = useState(false);
  const [message, setMessage] = useState("");
  return html`<div class="panels"><div>
    <section class="panel"><h2>${t("agent.deployment")}</h2>
      <${Facts} items=${[[t("list.state"), html`<${State} of=${deployment.state} />`],
        [t("agent.revision"), deployment.revision && (deployment.servingRevision === deployment.revision ? t("agent.serves", { n: deployment.revision }) : t("agent.serves_other", { n: deployment.revision, serving: deployment.servingRevision || "-" }))],
        [t("agent.drift"), deployment.configDrift && t("agent.drift_yes")], [t("agent.restarts"), deployment.restartCount || undefined],
        [t("agent.deployed_at"), deployment.deployedAt && html`<${Time} at=${deployment.deployedAt} /> ${t("agent.by", { name: deployment.deployedBy })}`],
        [t("agent.url"), deployment.state !== "not_deployed" && html`<code>${deployment.publicUrl}</code> <${Copy} text=${deployment.publicUrl} />`],
        [t("agent.key"), deployment.apiKey && (key ? html`<code>${deployment.apiKey}</code> <${Copy} text=${deployment.apiKey} />` : html`<${Button} kind="small" action=${() => setKey(true)}>${t("signin.show")}</${Button}>`)]]} />
      ${deployment.error && html`<p class="error">${deployment.error}</p>`}
      ${deployment.conditions.length > 0 && html`<${Conditions} items=${deployment.conditions} error=${deployment.error} />`}
      ${Object.keys(servers).length > 0 && html`<h3>${t("page.mcps")}</h3><ul>${each(Object.entries(servers), "li", ([name, s]) => html`<li><a href=${to("mcps", name)}>${name}</a> ${s.status && html`<${State} of=${s.status} />`} ${s.error}</li>`, ([name]) => name)}</ul>`}
    </section>
    ${week.data && html`<section class="panel"><h2>${t("agent.week")}</h2><p><a href=${to("usage") + query({ agent: agent.name })}>${t("agent.week_text", { n: week.data.totals.runs, tokens: compact(week.data.totals.inputTokens + week.data.totals.outputTokens) })}</a></p>
      <${Bars} label=${t("agent.week")} items=${daily(week.data.items, day(-6), day(0), (r) => r.inputTokens + r.outputTokens)} /><p class="soft">${t("agent.budgets_text")}</p></section>`}
    </div><div>
    <section class="panel"><h2>${t("agent.try")}</h2>
      <form onSubmit=${(e) => { e.preventDefault(); sessionStorage.setItem("draft", message); go(to("chat", agent.name)); }}>
        <textarea rows="3" aria-label=${t("chat.message")} placeholder=${t("chat.placeholder")} value=${message} onInput=${(e) => setMessage(e.target.value)}></textarea>
        <div class="buttons"><button class="button plain">${t("start.chat_action")}</button></div></form></section>
    <${Connect} model=${agent.name} />
    <section class="panel"><h2>${t("agent.about")}</h2>
      ${descriptionOf(agent) && html`<p>${descriptionOf(agent)}</p>`}
      <${Facts} items=${[[t("field.provider"), html`<a href=${to("providers", agent.providerId)}>${provider.data ? provider.data.name : t("field.provider")}</a>`], [t("field.model"), html`<code>${agent.model}</code>`], [t("field.permissionMode"), agent.permissionMode],
        ...["tools", "skills", "mcps"].map((kind) => [t("page." + kind), agent[kind].length > 0 && agent[kind].map((n, i) => html`${i > 0 && ", "}<a href=${to(kind, n)}>${n}</a>`)]).filter((i) => i[1]),
        agent.knowledge.length > 0 && [t("page.knowledge"), agent.knowledge.map((k, i) => html`${i > 0 && ", "}<a href=${to("knowledge", k.name)}>${k.name}</a>`)],
        [t("list.created"), html`<${Time} at=${agent.createdAt} />`]]} />
    </section></div>
  </div>`;
}

/** Conflict shows both versions when another user has saved in the meantime. */
function Conflict({ mine, theirs, keep, take }) {
  return html`<div class="panel" role="alert"><h2>${t("form.conflict")}</h2><p>${t("form.conflict_text")}</p><${Diff} from=${theirs} to=${mine} label=${t("form.conflict")} />
    <div class="buttons"><${Button} kind="danger" action=${keep}>${t("form.keep_mine")}</${Button}><${Button} action=${take}>${t("form.take_theirs")}</${Button}></div></div>`;
}

function Configure({ agent, reload }) {
  const choices = useChoices();
  const [base, setBase] = useState(agent);
  const [theirs, setTheirs] = useState(null);
  const store = async (v, version) => {
    const saved = await call("PUT", admin("agents", agent.name), bodyOf(v, base), { headers: { "If-Match": String(version) } });
    setBase(saved);
    setTheirs(null);
    toast(t("form.saved"));
    await reload();
  };
  const form = useForm(valuesOf(agent), async (v) => {
    try {
      await store(v, base.version);
    } catch (fault) {
      if (fault.code === "precondition_failed") setTheirs(await get(admin("agents", agent.name)));
      throw fault;
    }
  });
  return html`${theirs && html`<${Conflict} mine=${pretty(form.values)} theirs=${pretty(valuesOf(theirs))} keep=${async () => { await store(form.values, theirs.version); form.reset(form.values); }}
      take=${() => { setBase(theirs); form.reset(valuesOf(theirs)); setTheirs(null); }} />`}
    <${Loaded} state=${choices}>${(found) => html`<${Form} form=${form} action=${t("action.save")} names=${names}><${AgentFields} form=${form} choices=${found} /></${Form}>`}</${Loaded}>`;
}

function Yaml({ agent, reload }) {
  const state = useLoad(async () => (await request("GET", admin("agents", agent.name, "export"), { headers: { Accept: "application/yaml" } })).text(), [agent.version]);
  return html`<${Loaded} state=${state}>${(text) => html`<${YamlForm} key=${text} text=${text} agent=${agent} reload=${reload} />`}</${Loaded}>`;
}

function YamlForm({ text, agent, reload }) {
  const form = useForm({ yaml: text }, async (v) => {
    await call("POST", admin("agents", "import") + "?replace=true", v.yaml, { headers: { "Content-Type": "application/yaml" } });
    toast(t("form.saved"));
    await reload();
  });
  return html`<p>${t("agent.yaml_text")}</p><${Form} form=${form} action=${t("action.save")} names=${["yaml"]}>
    <label class="hidden" for="yaml">YAML</label><textarea id="yaml" class="code" rows="28" spellcheck="false" value=${form.values.yaml} onInput=${(e) => form.set("yaml", e.target.value)}></textarea>
    ${form.dirty && html`<h3>${t("agent.changes")}</h3><${Diff} from=${text} to=${form.values.yaml} label=${t("agent.changes")} />`}
  </${Form}><div class="buttons"><${Button} action=${() => save(admin("agents", agent.name, "export"), agent.name + ".yaml")}>${t("files.download")}</${Button}></div>`;
}

function Deployments({ agent, deployment, reload }) {
  const state = useLoad(() => (deployment.state === "not_deployed" ? { items: [] } : get(admin("agents", agent.name, "deploy", "revisions"))), [deployment.revision, deployment.servingRevision, deployment.state]);
  const rollback = async (r) => {
    if (!(await confirm({ title: t("agent.rollback_title", { n: r.revision }), text: t("agent.rollback_text", { n: r.revision }), action: t("agent.rollback") }))) return;
    await call("POST", admin("agents", agent.name, "deploy", "rollback"), { revision: r.revision });
    await reload();
  };
  return html`<${Loaded} state=${state}>${(list) => (list.items.length ? html`<${Table} label=${t("agent.revisions")} rows=${list.items} keyOf=${(r) => r.revision} columns=${[
    { text: t("agent.revision"), by: (r) => r.revision, cell: (r) => html`<strong>${r.revision}</strong> ${r.revision === deployment.servingRevision && html`<${Badge} kind="ok">${t("agent.serving")}</${Badge}>`} ${!r.ready && html`<${Badge} kind="warn">${t("agent.never_ready")}</${Badge}>`}` },
    { text: t("agent.deployed_at"), by: (r) => r.deployedAt, cell: (r) => html`<span><${Time} at=${r.deployedAt} /> ${t("agent.by", { name: r.deployedBy })}</span>` },
    { text: t("agent.changes"), cell: (r) => r.changes.join(", ") || html`<span class="soft">${r.revision === 1 ? t("agent.first_revision") : "-"}</span>` },
    { text: "", class: "end", cell: (r) => canWrite() && r.ready && r.revision !== deployment.servingRevision && html`<${Button} kind="small" action=${() => rollback(r)}>${t("agent.rollback")}</${Button}>` },
  ]} />` : html`<${Empty} text=${t("agent.no_revisions")} />`)}</${Loaded}>`;
}

function Logs({ agent, deployment }) {
  const [paused, setPaused] = useState(false);
  const state = useLoad(() => get(admin("agents", agent.name, "deploy", "logs") + "?tail=1000"), [agent.name]);
  useInterval(state.reload, paused ? 0 : 2000);
  if (deployment.state === "not_deployed") return html`<${Empty} text=${t("chat.not_deployed")} />`;
  return html`<${Loaded} state=${state}>${(data) => html`<${Log} lines=${data.lines} paused=${paused} onPause=${() => setPaused(!paused)} />`}</${Loaded}>`;
}

function Access({ agent, reload }) {
  const users = useLoad(async () => (isAdmin() ? (await all(admin("users"))).map((u) => ({ value: u.username, text: u.displayName || u.username })) : null));
  const access = agent.access || { everyone: true, users: [], groups: [] };
  const form = useForm({ everyone: access.everyone, users: access.users || [], groups: access.groups || [] }, async (v) => {
    await call("PUT", admin("agents", agent.name), { ...bodyOf(valuesOf(agent), agent), access: v }, { headers: { "If-Match": String(agent.version) } });
    toast(t("form.saved"));
    await reload();
  });
  return html`<p>${t("agent.access_text")}</p><${Form} form=${form} action=${t("action.save")} names=${[]}>
    <${CheckField} form=${form} name="everyone" label=${t("agent.everyone")} />
    ${!form.values.everyone && html`<${NamesField} form=${form} name="users" label=${t("page.users")} help=${t("agent.users_help")} options=${users.data || undefined} /><${NamesField} form=${form} name="groups" label=${t("users.groups")} />`}
  </${Form}>`;
}

function Detail({ agent, deployment, reload, place }) {
  const part = place.segments[2] || "overview";
  const parts = ["overview", canWrite() && "configure", "deployments", canWrite() && "logs", canWrite() && "access"].filter(Boolean);
  const deploy = async () => {
    await open((close) => html`<${DeployDialog} agent=${agent} deployment=${deployment} close=${close} />`);
    await reload();
  };
  const act = (what) => async () => {
    await call("POST", admin("agents", agent.name, "deploy", what));
    await reload();
  };
  const undeploy = async () => {
    if (!(await confirm({ title: t("agent.undeploy_title", { name: agent.name }), text: t("agent.undeploy_text"), action: t("agent.undeploy"), danger: true, name: agent.name }))) return;
    await call("DELETE", admin("agents", agent.name, "deploy"));
    await reload();
  };
  const rotate = async () => {
    if (!(await confirm({ title: t("agent.rotate"), text: t("agent.rotate_text"), action: t("agent.rotate") }))) return;
    await act("rotate-key")();
  };
  const remove = async () => {
    const chats = await get(admin("chat", "sessions") + query({ agent: agent.name, page_size: 1 }));
    if (!(await confirm({ title: t("agent.delete_title", { name: agent.name }), text: t("agent.delete_effect", { n: chats.total }), action: t("action.delete"), danger: true, name: agent.name }))) return;
    try {
      await call("DELETE", admin("agents", agent.name));
    } catch (fault) {
      if (!fault.data.scenes) throw fault;
      toast(t("agent.has_scenes", { scenes: fault.data.scenes.join(", ") }), { kind: "bad" });
      return;
    }
    go(to("agents"), { force: true });
  };
  const yaml = place.query.get("view") === "yaml";
  const deployed = deployment.state !== "not_deployed";
  const up = ["running", "unhealthy", "starting", "deploying"].includes(deployment.state);
  return html`<${Page} title=${titleOf(agent)} crumbs=${[{ href: to("agents"), text: t("page.agents") }]} action=${html`
      ${canWrite() && up && html`<${Button} action=${act("stop")}>${t("chat.stop")}</${Button}>`}
      ${canWrite() && ["stopped", "failed"].includes(deployment.state) && html`<${Button} action=${act("start")}>${t("agent.start")}</${Button}>`}
      ${canWrite() && html`<${Button} kind="primary" action=${deploy}>${t("agent.deploy")}</${Button}>`}`}
    tabs=${html`<${Tabs} label=${titleOf(agent)} items=${parts.map((p) => ({ href: p === "overview" ? to("agents", agent.name) : to("agents", agent.name, p), text: t("agent.tab." + p), current: p === part }))} />`}>
    ${!agent.enabled && html`<div class="note">${t("agent.disabled")}</div>`}
    ${part === "overview" && html`<${Overview} agent=${agent} deployment=${deployment} />
      ${canWrite() && html`<ul class="danger-list">${(deployed ? [["rotate", "plain", rotate], ["undeploy", "danger", undeploy]] : [["delete", "danger", remove]]).map(([what, kind, action]) => html`<li key=${what}>
        <p><strong>${t("agent." + what)}</strong>${t("agent." + what + "_text")}</p><${Button} kind=${kind} action=${action}>${t("agent." + what)}</${Button}></li>`)}</ul>`}`}
    ${part === "configure" && canWrite() && html`<div class="chips"><${Button} kind="small" aria-pressed=${yaml ? "false" : "true"} action=${() => setQuery({ view: "" })}>${t("agent.form")}</${Button}><${Button} kind="small" aria-pressed=${yaml ? "true" : "false"} action=${() => setQuery({ view: "yaml" })}>YAML</${Button}></div>
      ${yaml ? html`<${Yaml} agent=${agent} reload=${reload} />` : html`<${Configure} key=${agent.id} agent=${agent} reload=${reload} />`}`}
    ${part === "deployments" && html`<${Deployments} agent=${agent} deployment=${deployment} reload=${reload} />`}
    ${part === "logs" && canWrite() && html`<${Logs} agent=${agent} deployment=${deployment} />`}
    ${part === "access" && canWrite() && html`<${Access} key=${agent.version} agent=${agent} reload=${reload} />`}
  </${Page}>`;
}

export function Agent({ place }) {
  const name = place.segments[1];
  const agent = useLoad(() => get(admin("agents", name)), [name]);
  const deployment = useLoad(() => get(admin("agents", name, "deploy")), [name]);
  const state = deployment.data ? deployment.data.state : "";
  useInterval(deployment.reload, changing.includes(state) ? 500 : 5000);
  const reload = () => Promise.all([agent.reload(), deployment.reload()]);
  const both = { ...agent, data: agent.data && deployment.data ? agent.data : null, fault: agent.fault || deployment.fault, reload };
  return html`<${LoadedPage} state=${both} title=${name} crumbs=${[{ href: to("agents"), text: t("page.agents") }]}>${(a) => html`<${Detail} key=${name} agent=${a} deployment=${deployment.data} reload=${reload} place=${place} />`}</${LoadedPage}>`;
}
