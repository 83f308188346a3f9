// Tokens and cost, and budgets.
import { html, useState } from "../lib/preact.js";
import { admin, all, call, get, isAdmin, query, save } from "../app/api.js";
import { setQuery, to } from "../app/router.js";
import { compact, date, money, number, t, titleOf } from "../app/text.js";
import { Badge, Button, Empty, Loaded, Page, Paging, Tabs, Time, useLoad } from "../parts/basic.js";
import { Bars, daily } from "../parts/chart.js";
import { confirm, Dialog, open, toast } from "../parts/dialog.js";
import { Form, NumberField, SelectField, TextField, useForm } from "../parts/form.js";
import { Table } from "../parts/table.js";

const input = (r) => r.inputTokens + r.cacheReadTokens + r.cacheWriteTokens;
const tokens = (r) => input(r) + r.outputTokens;
const day = (offset) => new Date(Date.now() + offset * 86_400_000).toISOString().slice(0, 10);

function Report({ place }) {
  const by = place.query.get("by") || "agent";
  const page = Number(place.query.get("page")) || 1;
  const from = place.query.get("from") || day(-29);
  const until = place.query.get("to") || day(0);
  const only = { agent: place.query.get("agent") || "", user: place.query.get("user") || "" };
  const key = JSON.stringify([by, page, from, until, only]);
  const rows = useLoad(() => get(admin("usage") + query({ by, from, to: until, page, page_size: 50, ...only })), [key]);
  const days = useLoad(() => get(admin("usage") + query({ by: "day", from, to: until, page_size: 100, ...only })), [key]);
  const agents = useLoad(() => all(admin("agents")));
  const [what, setWhat] = useState("tokens");
  const nameOf = { agent: (r) => html`<a href=${to("agents", r.agentName)}>${r.agentName}</a>`, user: (r) => r.userName || r.userId, model: (r) => html`<code>${r.model}</code>`, day: (r) => date(r.day) };
  return html`<${Frame} part="report" action=${html`<${Button} action=${() => save(admin("usage", "export") + query({ by, from, to: until, ...only, bom: true }), "usage.csv")}>${t("list.export", { format: "CSV" })}</${Button}>`}><div class="filters">
      <label>${t("usage.by")}<select value=${by} onChange=${(e) => setQuery({ by: e.target.value, page: "" })}>${["agent", "user", "model", "day"].map((v) => html`<option value=${v} selected=${v === by}>${t("usage.by." + v)}</option>`)}</select></label>
      <label>${t("usage.by.agent")}<select value=${only.agent} onChange=${(e) => setQuery({ agent: e.target.value, page: "" })}><option value="">${t("list.all")}</option>
        ${[...new Set([...(agents.data || []).map((a) => a.name), only.agent])].filter(Boolean).map((v) => html`<option value=${v} selected=${v === only.agent}>${v}</option>`)}</select></label>
      <label>${t("audit.from")}<input type="date" value=${from} max=${until} onChange=${(e) => setQuery({ from: e.target.value, page: "" })} /></label>
      <label>${t("audit.to")}<input type="date" value=${until} min=${from} onChange=${(e) => setQuery({ to: e.target.value, page: "" })} /></label>
      <label>${t("usage.chart")}<select value=${what} onChange=${(e) => setWhat(e.target.value)}>${["tokens", "cost", "runs"].map((v) => html`<option value=${v} selected=${v === what}>${t("usage." + v)}</option>`)}</select></label></div>
    <${Loaded} state=${days}>${(list) => html`<div class="figures"><div><strong>${compact(tokens(list.totals))}</strong>${t("usage.tokens")}</div><div><strong>${money(list.totals.cost)}</strong>${t("usage.cost")}</div><div><strong>${compact(list.totals.runs)}</strong>${t("usage.runs")}</div></div>
      <${Bars} label=${t("usage." + what)} format=${what === "cost" ? money : compact} items=${daily(list.items, from, until, (r) => (what === "tokens" ? tokens(r) : r[what]))} />`}</${Loaded}>
    <${Loaded} state=${rows}>${(list) => (list.items.length ? html`<${Table} label=${t("page.usage")} rows=${list.items} total=${list.total} keyOf=${(r) => JSON.stringify([r.day, r.agentName, r.userId, r.model])} columns=${[
      { text: t("usage.by." + by), by: (r) => ({ agent: r.agentName, user: r.userName || r.userId, model: r.model, day: r.day })[by], cell: nameOf[by] },
      { text: t("usage.runs"), class: "num", by: (r) => r.runs, cell: (r) => number(r.runs) },
      { text: t("usage.input"), class: "num", by: input, cell: (r) => number(input(r)) },
      { text: t("usage.output"), class: "num", by: (r) => r.outputTokens, cell: (r) => number(r.outputTokens) },
      { text: t("usage.cost"), class: "num", by: (r) => r.cost, cell: (r) => (r.estimates ? "≈ " : "") + money(r.cost) },
    ]} /><${Paging} page=${page} size=${50} total=${list.total} />` : html`<${Empty} text=${t("usage.none")} />`)}</${Loaded}></${Frame}>`;
}

function BudgetForm({ budget, close }) {
  const form = useForm(budget || { kind: "agent", name: "", period: "month", unit: "cost", soft: null, hard: null }, async (v) => {
    await call("PUT", admin("budgets", v.kind, v.name), { period: v.period, unit: v.unit, soft: v.soft, hard: v.hard });
    toast(t("form.saved"));
    close(true);
  }, { guarded: false });
  const choices = useLoad(async () => ({ agent: (await all(admin("agents"))).map((a) => ({ value: a.name, text: titleOf(a) })),
    user: isAdmin() ? (await all(admin("users"))).map((u) => ({ value: u.id, text: u.username })) : null }));
  const named = choices.data && choices.data[form.values.kind];
  const options = (name, values) => values.map((value) => ({ value, text: t("budget." + name + "." + value) }));
  return html`<${Dialog} title=${t(budget ? "budget.edit" : "budget.create")} onClose=${() => close(false)}><${Form} form=${form} action=${t("action.save")} cancel=${() => close(false)} names=${["kind", "name", "period", "unit", "soft", "hard"]} always>
    ${!budget && html`<${SelectField} form=${form} name="kind" label=${t("budget.kind")} options=${options("kind", ["agent", "user"])} />${named ? html`<${SelectField} form=${form} name="name" label=${t("field.name")} options=${[{ value: "", text: t("form.choose") }, ...named]} required />` : html`<${TextField} form=${form} name="name" label=${t("field.name")} help=${t("budget.name_help")} required />`}`}
    <${SelectField} form=${form} name="period" label=${t("budget.period")} options=${options("period", ["day", "month"])} />
    <${SelectField} form=${form} name="unit" label=${t("budget.unit")} options=${options("unit", ["tokens", "cost"])} />
    <${NumberField} form=${form} name="soft" label=${t("budget.soft")} min="0" step="any" /><${NumberField} form=${form} name="hard" label=${t("budget.hard")} help=${t("budget.hard_help")} min="0" step="any" />
  </${Form}></${Dialog}>`;
}

const removal = () => ({
  text: t("action.delete"), title: (n) => t("budget.delete_some", { n }), effect: t("budget.delete_effect"),
  can: () => true, run: (b) => call("DELETE", admin("budgets", b.kind, b.name)),
});

function Budgets({ place }) {
  const page = Number(place.query.get("page")) || 1;
  const state = useLoad(() => get(admin("budgets") + query({ page, page_size: 50 })), [page]);
  const users = useLoad(async () => Object.fromEntries(isAdmin() ? (await all(admin("users"))).map((u) => [u.id, u.username]) : (await all(admin("usage") + query({ by: "user" }))).map((u) => [u.userId, u.userName]))); // only admins read users
  const nameOf = (b) => (b.kind === "agent" ? b.name : (users.data || {})[b.name] || b.name.slice(-8)); // a user without usage
  const edit = async (budget) => {
    if (await open((close) => html`<${BudgetForm} budget=${budget} close=${close} />`)) await state.reload();
  };
  const remove = async (b) => {
    if (!(await confirm({ title: t("budget.delete_title", { name: nameOf(b) }), text: t("budget.delete_text"), action: t("action.delete"), danger: true }))) return;
    await call("DELETE", admin("budgets", b.kind, b.name));
    await state.reload();
  };
  const amount = (b, v) => (v === undefined || v === null ? "-" : b.unit === "cost" ? money(v) : compact(v));
  const create = html`<${Button} kind="primary" action=${() => edit(null)}>${t("budget.create")}</${Button}>`;
  return html`<${Frame} part="budgets" action=${create}><p class="soft">${t("budget.text")}</p>
    <${Loaded} state=${state}>${(list) => (list.items.length ? html`<${Table} label=${t("usage.tab.budgets")} rows=${list.items} total=${list.total} keyOf=${(b) => [b.kind, b.name]} select=${{ name: nameOf, actions: [removal()], reload: state.reload }} columns=${[
      { text: t("field.name"), by: nameOf, cell: (b) => html`<strong>${b.kind === "agent" ? html`<a href=${to("agents", b.name)}>${b.name}</a>` : isAdmin() ? html`<a href=${to("users", b.name)}>${nameOf(b)}</a>` : nameOf(b)}</strong> <${Badge}>${t("budget.kind." + b.kind)}</${Badge}>` },
      { text: t("budget.period"), by: (b) => t("budget.period." + b.period), cell: (b) => t("budget.period." + b.period) },
      { text: t("budget.spent"), class: "num", cell: (b) => amount(b, b.spent) }, { text: t("budget.soft"), class: "num", cell: (b) => amount(b, b.soft) }, { text: t("budget.hard"), class: "num", cell: (b) => amount(b, b.hard) },
      { text: t("budget.resets"), by: (b) => b.resetsAt, cell: (b) => html`<${Time} at=${b.resetsAt} />` },
      { text: "", class: "end", cell: (b) => html`<div class="buttons"><${Button} kind="small" action=${() => edit(b)}>${t("action.edit")}</${Button}><${Button} kind="small danger" action=${() => remove(b)}>${t("action.delete")}</${Button}></div>` },
    ]} /><${Paging} page=${page} size=${50} total=${list.total} />` : html`<${Empty} text=${t("budget.none")}>${create}</${Empty}>`)}</${Loaded}></${Frame}>`;
}

const Frame = ({ part, action, children }) => html`<${Page} title=${t("page.usage")} action=${action} tabs=${html`<${Tabs} label=${t("page.usage")} items=${["report", "budgets"].map((p) => ({ href: p === "report" ? to("usage") : to("usage", p), text: t("usage.tab." + p), current: p === part }))} />`}>${children}</${Page}>`;

export const Usage = ({ place }) => (place.segments[1] === "budgets" ? html`<${Budgets} place=${place} />` : html`<${Report} place=${place} />`);
