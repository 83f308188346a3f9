// The audit log: filters in the address, a snapshot that stays while paging, verification and export.
import { html, textOf, useState } from "../lib/preact.js";
import { admin, get, query, request, saveBlob } from "../app/api.js";
import { setQuery, to } from "../app/router.js";
import { dateTime, has, instantOf, jsonOf, localOf, t } from "../app/text.js";
import { Badge, Button, Copy, Empty, Facts, Loaded, Page, Search, State, Time, useLoad } from "../parts/basic.js";
import { Dialog, open } from "../parts/dialog.js";
import { Table } from "../parts/table.js";

const pageSize = 50;
const categories = ["auth", "user", "invite", "provider", "agent", "token", "aigc"];
const names = ["category", "action", "user", "from", "to"];
const pages = { user: "users", provider: "providers", agent: "agents", scene: "scenes", mcp: "mcps", knowledge: "knowledge", tool: "tools", skill: "skills" };

/** targetOf returns the page of what an entry is about. */
function targetOf(e) {
  const page = pages[e.targetType];
  const id = ["user", "provider"].includes(e.targetType) ? e.targetId : e.targetName;
  return page && id && !e.action.endsWith("delete") && !e.action.includes(".delete_") ? to(page, id) : "";
}

const Value = ({ of }) => (of === null || of === undefined || of === "" ? html`<span class="soft">-</span>` : typeof of === "object" ? html`<code>${JSON.stringify(of)}</code>` : String(of));

// Ids of sessions and runs name nothing to a person. The JSON of an entry has them.
const isID = /^[0-9a-f]{8}-[0-9a-f]{4}-/;

function Entry({ e, close }) {
  const target = targetOf(e);
  return html`<${Dialog} wide title=${e.action} onClose=${() => close()}>
    <${Facts} items=${[["ID", html`<code>${e.id}</code>`], [t("audit.time"), html`<${Time} at=${e.createdAt} as=${dateTime} />`], [t("list.state"), html`<${State} of=${e.status} />`], [t("audit.user"), e.userName || e.userId],
      [t("audit.target"), e.targetType && html`${e.targetType} ${target ? html`<a href=${target} onClick=${() => close()}>${e.targetName || e.targetId}</a>` : e.targetName || e.targetId}`], [t("account.address"), html`<code>${e.remoteIp}</code>`], [t("account.session"), e.userAgent]]} />
    ${e.detail && html`<h3>${t("audit.detail")}</h3><table class="table" aria-label=${t("audit.detail")}><thead><tr><th>${t("audit.field")}</th><th>${t("audit.from")}</th><th>${t("audit.to")}</th></tr></thead><tbody>
      ${Object.entries(e.detail).filter(([name, v]) => !isID.test(textOf(v)) && !(name.endsWith("Id") && name.slice(0, -2) in e.detail)).map(([name, v]) => (v && typeof v === "object" && "from" in v && "to" in v
        ? html`<tr><td><code>${name}</code></td><td data-label=${t("audit.from")}><${Value} of=${v.from} /></td><td data-label=${t("audit.to")}><${Value} of=${v.to} /></td></tr>`
        : html`<tr><td><code>${name}</code></td><td></td><td data-label=${t("audit.to")}><${Value} of=${v} /></td></tr>`))}</tbody></table>`}
    <div class="buttons"><${Copy} text=${jsonOf(e)} label=${t("audit.copy_json")} /><${Button} kind="primary" action=${() => close()}>${t("action.close")}</${Button}></div>
  </${Dialog}>`;
}

function Verify({ close }) {
  const [head, setHead] = useState("");
  const [result, setResult] = useState(null);
  const verify = async () => setResult(await get(admin("audit-logs", "verify") + query({ head: head.trim() })));
  const current = result && result.headId !== "0" ? result.headId + ":" + result.headHash : "";
  return html`<${Dialog} wide title=${t("audit.verify")} onClose=${() => close()}>
    <p>${t("audit.verify_text")}</p>
    <label>${t("audit.head")}<input value=${head} onInput=${(e) => setHead(e.target.value)} spellcheck="false" autocomplete="off" placeholder="123:0a1b..." /></label>
    ${result && html`<div class="note ${result.ok ? "info" : "bad"}" role="status">${result.ok ? t("audit.ok", { n: result.checked }) : t("audit.not_ok", { reason: has("audit.reason." + result.reason) ? t("audit.reason." + result.reason) : result.reason, id: result.firstBadId || "-" })}</div>
      ${current && html`<p>${t("audit.head_text")}</p><output class="lines wrap">${current}</output><div class="buttons"><${Copy} text=${current} /></div>`}`}
    <div class="buttons"><${Button} action=${() => close()}>${t("action.close")}</${Button}><${Button} kind="primary" action=${verify}>${t("audit.verify")}</${Button}></div>
  </${Dialog}>`;
}

export function Audit({ place }) {
  const filter = Object.fromEntries(names.map((n) => [n, place.query.get(n) || ""]));
  const page = Number(place.query.get("page")) || 1;
  const snapshot = place.query.get("snapshotId") || "";
  const key = JSON.stringify([filter, page, snapshot]);
  const state = useLoad(() => get(admin("audit-logs") + query({ ...filter, page, page_size: pageSize, snapshotId: snapshot })), [key]);
  const set = (values) => setQuery({ ...values, page: "", snapshotId: "" });
  const save = async (format) => {
    const response = await request("GET", admin("audit-logs", "export") + query({ ...filter, snapshotId: (state.data && state.data.snapshotId) || snapshot, format, bom: true }), { headers: { Accept: "*/*" } });
    saveBlob(await response.blob(), "audit." + format);
  };
  const chips = names.filter((n) => filter[n]);
  const last = state.data ? Math.max(1, Math.ceil(state.data.total / pageSize)) : 1;
  const turn = (n) => setQuery({ page: n > 1 ? n : "", snapshotId: state.data.snapshotId }, false);
  return html`<${Page} title=${t("page.audit")} action=${html`<${Button} action=${() => open((close) => html`<${Verify} close=${close} />`)}>${t("audit.verify")}</${Button}>
      ${["csv", "ndjson"].map((format) => html`<${Button} action=${() => save(format)}>${t("list.export", { format: format.toUpperCase() })}</${Button}>`)}`}>
    <div class="filters">
      <label>${t("audit.category")}<select value=${filter.category} onChange=${(e) => set({ category: e.target.value })}><option value="">${t("list.all")}</option>${categories.map((c) => html`<option value=${c} selected=${c === filter.category}>${t("audit.category." + c)}</option>`)}</select></label>
      <label>${t("audit.action")}<${Search} value=${filter.action} name="action" label=${t("audit.action")} /></label>
      <label>${t("audit.user")}<${Search} value=${filter.user} name="user" label=${t("audit.user")} /></label>
      <label>${t("audit.from")}<input type="datetime-local" value=${localOf(filter.from)} onChange=${(e) => set({ from: instantOf(e.target.value) })} /></label>
      <label>${t("audit.to")}<input type="datetime-local" value=${localOf(filter.to)} onChange=${(e) => set({ to: instantOf(e.target.value) })} /></label>
    </div>
    ${(chips.length > 0 || snapshot) && html`<div class="chips">${chips.map((n) => html`<${Badge}>${t("audit." + n)}: ${n === "from" || n === "to" ? dateTime(filter[n]) : n === "category" && categories.includes(filter[n]) ? t("audit.category." + filter[n]) : filter[n]} <button type="button" class="button quiet small" aria-label=${t("form.remove", { name: t("audit." + n) })} onClick=${() => set({ [n]: "" })}>×</button></${Badge}>`)}
      ${snapshot && html`<${Badge} kind="info">${t("audit.snapshot", { id: snapshot })} <button type="button" class="button quiet small" aria-label=${t("audit.newest")} onClick=${() => set({})}>×</button></${Badge}>`}</div>`}
    <${Loaded} state=${state}>${(list) => (list.items.length ? html`<${Table} label=${t("page.audit")} rows=${list.items} total=${list.total} columns=${[
        { text: t("audit.time"), by: (e) => e.createdAt, cell: (e) => html`<button type="button" class="button link" onClick=${() => open((close) => html`<${Entry} e=${e} close=${close} />`)}><${Time} at=${e.createdAt} /></button>` },
        { text: t("audit.action"), by: (e) => e.action, cell: (e) => html`<code>${e.action}</code>` }, { text: t("audit.user"), by: (e) => e.userName, cell: (e) => e.userName },
        { text: t("audit.target"), by: (e) => e.targetName || e.targetId, cell: (e) => (targetOf(e) ? html`<a href=${targetOf(e)}>${e.targetName || e.targetId}</a>` : e.targetName || e.targetId) },
        { text: t("list.state"), by: (e) => t("state." + e.status), cell: (e) => html`<${State} of=${e.status} />` },
      ]} />
      <nav class="paging" aria-label=${t("list.pages")}>${last > 1 && html`<${Button} kind="small" disabled=${page <= 1} action=${() => turn(page - 1)}>${t("list.previous")}</${Button}><span role="status">${t("list.page", { page, last })}</span>
        <${Button} kind="small" disabled=${page >= last} action=${() => turn(page + 1)}>${t("list.next")}</${Button}>`}<span class="soft" role="status">${t("list.count", { n: list.total })}</span></nav>` : html`<${Empty} text=${t("list.nothing")} />`)}</${Loaded}>
  </${Page}>`;
}
