// The chats of all users, for maintainers and admins: what was said, what happened in the runs, and the labels.
import { html, textOf, useEffect, useRef, useState } from "../lib/preact.js";
import { admin, all, call, get, isAdmin, query } from "../app/api.js";
import { go, setQuery, to } from "../app/router.js";
import { clock, compact, duration, instantOf, jsonOf, localOf, t } from "../app/text.js";
import { Badge, Button, Copy, describe, Empty, Facts, Loaded, LoadedPage, Page, Paging, Search, Tabs, Time, useLoad } from "../parts/basic.js";
import { confirm, toast } from "../parts/dialog.js";
import { chunkOf } from "../parts/conversation.js";
import { each } from "../parts/part.js";
import { Table } from "../parts/table.js";

const pageSize = 25;
const names = ["agent", "user", "source", "from", "to"];
const sessions = (...rest) => admin("chat", "sessions", ...rest);
const titleOf = (s) => s.title || t("chat.untitled");

const removal = () => ({
  text: t("action.delete"), title: (n) => t("chats.delete_some", { n }), effect: t("chats.delete_effect"),
  can: () => true, run: (s) => call("DELETE", sessions(s.id) + query({ user: s.userId })),
});

export function Chats({ place }) {
  const filter = Object.fromEntries(names.map((n) => [n, place.query.get(n) || ""]));
  const page = Number(place.query.get("page")) || 1;
  const key = JSON.stringify([filter, page]);
  const state = useLoad(() => get(sessions() + query({ ...filter, page, page_size: pageSize })), [key]);
  const agents = useLoad(() => all(admin("agents")));
  const known = (agents.data || []).map((a) => a.name);
  const set = (values) => setQuery({ ...values, page: "" });
  const select = (name, options) => html`<select value=${filter[name]} onChange=${(e) => set({ [name]: e.target.value })}><option value="">${t("list.all")}</option>
    ${options.map(([value, text]) => html`<option value=${value} selected=${value === filter[name]}>${text}</option>`)}</select>`;
  const filtered = names.some((n) => filter[n]);
  return html`<${Page} title=${t("page.chats")}>
    <p>${t("chats.text")}</p>
    <div class="filters">
      <label>${t("audit.user")}<${Search} value=${filter.user} name="user" label=${t("audit.user")} /></label>
      <label>${t("chat.agent")}${select("agent", [...new Set([...known, filter.agent])].filter(Boolean).map((n) => [n, n]))}</label>
      <label>${t("chats.source")}${select("source", ["hub", "push", "api"].map((v) => [v, t("chats.source." + v)]))}</label>
      <label>${t("audit.from")}<input type="datetime-local" value=${localOf(filter.from)} onChange=${(e) => set({ from: instantOf(e.target.value) })} /></label>
      <label>${t("audit.to")}<input type="datetime-local" value=${localOf(filter.to)} onChange=${(e) => set({ to: instantOf(e.target.value) })} /></label>
    </div>
    <${Loaded} state=${state}>${(list) => (list.items.length ? html`<${Table} label=${t("page.chats")} rows=${list.items} total=${list.total} keyOf=${(s) => [s.userId, s.id]} select=${{ name: titleOf, actions: [removal()], reload: state.reload }} href=${(s) => to("chats", s.id) + query({ user: s.userId })} columns=${[
      { text: t("field.title"), by: titleOf, cell: (s) => html`<strong>${titleOf(s)}</strong>` },
      { text: t("audit.user"), by: (s) => s.userName, cell: (s) => s.userName },
      { text: t("chat.agent"), by: (s) => s.agentName, cell: (s) => html`${s.agentName} ${s.source !== "hub" && html`<${Badge}>${t("chats.source." + s.source)}</${Badge}>`}` },
      { text: t("chats.messages"), class: "num", by: (s) => s.messageCount, cell: (s) => s.messageCount },
      { text: t("chats.last"), by: (s) => s.lastMessageAt || s.createdAt, cell: (s) => html`<${Time} at=${s.lastMessageAt || s.createdAt} />` },
    ]} /><${Paging} page=${page} size=${pageSize} total=${list.total} />` : html`<${Empty} text=${filtered ? t("list.nothing") : t("chats.none")} />`)}</${Loaded}>
  </${Page}>`;
}

/** More ends a list of which a part is shown. */
const More = ({ shown, total, action }) => html`<div class="buttons">${shown < total && html`<${Button} action=${action}>${t("list.more")}</${Button}>`}<span class="soft" role="status">${t("list.shown", { n: total, shown })}</span></div>`;

function Messages({ session, owner }) {
  const column = useRef(null);
  const [state, setState] = useState({ next: "", shown: 0, total: -1 });
  const [fault, setFault] = useState(null);
  const more = async () => {
    const list = await get(sessions(session.id, "messages") + query({ user: owner, page_size: 50, next: state.next }));
    const chunk = await chunkOf(list.items, { labels: true, sourceOf: (id) => sessions(session.id, "uploads", id) + query({ user: owner }) });
    if (!column.current) return;
    column.current.append(chunk);
    setState({ next: list.next || "", shown: state.shown + list.items.length, total: list.total });
  };
  useEffect(() => { more().catch(setFault); }, []);
  return html`<div class="column" ref=${column}></div>
    ${fault && html`<div class="note bad" role="alert">${describe(fault)}</div>`}
    ${state.total === 0 && html`<${Empty} text=${t("chats.no_messages")} />`}
    ${state.total > 0 && html`<${More} shown=${state.shown} total=${state.total} action=${more} />`}`;
}

/** lineOf returns what an entry is about. */
function lineOf(e) {
  if (e.type === "compaction") return textOf(e.summary);
  if (e.type !== "message") {
    const { subtype, result, usage, duration_ms: took, message, reason } = e.event || {};
    const used = usage || message?.usage;
    return [textOf(subtype), textOf(e.event?.tool_name || e.event?.name || result?.tool_name), textOf(reason), used && t("chat.tokens", { in: compact(used.input_tokens), out: compact(used.output_tokens) }), took !== undefined && duration(took)].filter(Boolean).join(" · ");
  }
  return (e.content || []).map((b) => textOf(b.text || b.thinking || b.name || b.output)).join(" ");
}

function Entry({ e }) {
  const kind = e.type === "message" ? e.role : e.type === "event" ? e.event?.type : e.type;
  const [open, setOpen] = useState(false);
  return html`<li><details class="fold" onToggle=${(event) => setOpen(event.target.open)}>
    <summary><code>${e.seq}</code><${Badge} kind=${e.type === "message" ? "info" : ""}>${kind}</${Badge}><span class="what">${lineOf(e).slice(0, 200)}</span>${e.time && html`<span class="took"><${Time} at=${e.time} as=${clock} /></span>`}</summary>
    ${open && html`<div class="inside"><pre tabindex="0">${jsonOf(e)}</pre></div>`}</details></li>`;
}

function Transcript({ session, owner }) {
  const [state, setState] = useState({ items: /** @type {any[]} */ ([]), next: "", total: -1, partial: false });
  const [fault, setFault] = useState(null);
  const more = async () => {
    const list = await get(sessions(session.id, "transcript") + query({ user: owner, page_size: 100, next: state.next }));
    setState({ items: [...state.items, ...list.items], next: list.next || "", total: list.total, partial: Boolean(list.partial) });
  };
  useEffect(() => { more().catch(setFault); }, []);
  if (fault) return html`<${Empty} text=${fault.status === 404 ? t("chats.no_transcript") : describe(fault)} />`;
  if (state.total < 0) return html`<${Loaded} state=${{ data: null, fault: null }} />`;
  /** @type {{id: string, entries: any[]}[]} */
  const runs = [];
  for (const e of state.items) {
    const last = runs[runs.length - 1];
    const id = textOf(e?.runId);
    if (last && last.id === id) last.entries.push(e);
    else runs.push({ id, entries: [e] });
  }
  return html`${state.partial && html`<div class="note">${t("chats.partial")}</div>`}
    ${runs.map((run, i) => html`<section key=${i}><h2>${run.id ? html`${t("chats.run")} <code title=${run.id}>${run.id.slice(0, 8)}</code>` : t("chats.no_run")}</h2><ul class="entries">${each(run.entries, "li", (e) => html`<${Entry} e=${e} />`, (e) => e.seq)}</ul></section>`)}
    <${More} shown=${state.next ? state.items.length : state.total} total=${state.total} action=${more} />`;
}

function Detail({ session, owner, part }) {
  const remove = async () => {
    if (!(await confirm({ title: t("chat.delete_title"), text: t("chat.delete_text", { n: session.messageCount }), action: t("action.delete"), danger: true }))) return;
    await call("DELETE", sessions(session.id) + query({ user: owner }));
    toast(t("chats.deleted"));
    await go(to("chats") + query({ user: session.userName }));
  };
  const address = (p) => (p === "messages" ? to("chats", session.id) : to("chats", session.id, p)) + query({ user: owner });
  return html`<${Page} title=${titleOf(session)} crumbs=${[{ href: to("chats"), text: t("page.chats") }]} action=${html`<${Button} kind="danger" action=${remove}>${t("action.delete")}</${Button}>`}
    tabs=${html`<${Tabs} label=${titleOf(session)} items=${["messages", "transcript"].map((p) => ({ href: address(p), text: t("chats.tab." + p), current: p === part }))} />`}>
    <div class="split"><div>${part === "transcript" ? html`<p class="soft">${t("chats.transcript_text")}</p><${Transcript} session=${session} owner=${owner} />` : html`<${Messages} session=${session} owner=${owner} />`}</div>
    <aside aria-label=${t("component.facts")}><${Facts} items=${[[t("audit.user"), isAdmin() ? html`<a href=${to("users", session.userId)}>${session.userName}</a>` : session.userName], [t("chat.agent"), html`<a href=${to("agents", session.agentName)}>${session.agentName}</a>`],
      [t("chats.source"), t("chats.source." + session.source)], [t("chats.messages"), session.messageCount], [t("list.created"), html`<${Time} at=${session.createdAt} />`], [t("chats.last"), html`<${Time} at=${session.lastMessageAt} />`], ["ID", html`<${Copy} text=${session.id} />`]]} /></aside></div>
  </${Page}>`;
}

export function AnyChat({ place }) {
  const [, id, part = "messages"] = place.segments;
  const user = place.query.get("user") || "";
  const state = useLoad(() => get(sessions(id) + query({ user })), [id, user]);
  return html`<${LoadedPage} state=${state} title=${t("chats.one")} crumbs=${[{ href: to("chats"), text: t("page.chats") }]}>${(session) => html`<${Detail} key=${id + part} session=${session} owner=${session.userId} part=${part} />`}</${LoadedPage}>`;
}
