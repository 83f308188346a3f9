// The small parts of every page.
import { html, textOf, useState, useEffect, useRef, useCallback } from "../lib/preact.js";
import { dateTime, has, language, relative, t } from "../app/text.js";
import { setQuery } from "../app/router.js";
import { toast } from "./dialog.js";
import { Part } from "./part.js";

let ids = 0;
/** useId returns an id for an element of the page. */
export function useId() {
  const ref = useRef("");
  ref.current ||= "e" + ++ids;
  return ref.current;
}

/** isEnter reports whether a key event is Enter, and not the end of an input method. That of Safari comes after isComposing, with the code 229. */
export const isEnter = (event) => event.key === "Enter" && !event.isComposing && event.keyCode !== 229;

/** Button has a kind: primary, plain, danger or quiet. It is disabled while its action runs. */
export function Button({ kind = "plain", action, busy, children, disabled, label, ...rest }) {
  const [running, setRunning] = useState(false);
  const mounted = useRef(true);
  useEffect(() => () => { mounted.current = false; }, []);
  const run = async (event) => {
    if (running) return;
    setRunning(true);
    try {
      await action(event);
    } catch (fault) {
      toast(describe(fault), { kind: "bad" });
    } finally {
      if (mounted.current) setRunning(false);
    }
  };
  const waiting = running || busy;
  return html`<button type=${action ? "button" : "submit"} class="button ${kind}" disabled=${disabled} aria-busy=${waiting ? "true" : undefined}
    aria-label=${label} title=${label} onClick=${action ? run : undefined} ...${rest}>${children}</button>`;
}

/** meaningOf returns the text of the code of an error, in the language of the user. The messages of the hub are English. */
function meaningOf(fault) {
  if (language() === "en" && fault.message) return fault.message;
  if (fault.code && has("code." + fault.code)) return t("code." + fault.code);
  return fault.message || t("error.status", { status: fault.status || "?" });
}

// Codes whose text says all.
const complete = ["invalid_credentials", "unauthenticated", "token_expired", "token_revoked", "refresh_reused", "password_change_required", "account_disabled", "last_admin", "invite_invalid", "agent_not_deployed", "rate_limited", "precondition_failed"];

/** detailOf returns the message of the hub if it says more than the text for the user. */
export const detailOf = (fault) => (fault.message && fault.message !== meaningOf(fault) && !complete.includes(fault.code) ? fault.message : "");

const longestRetry = 120; // seconds; a later time is one of the clock

/** describe returns the text of an error for the user. */
export function describe(fault) {
  let text = meaningOf(fault);
  if (fault.retryAfter > longestRetry) text = t("error.retry_at", { text, time: dateTime(new Date(Date.now() + fault.retryAfter * 1000).toISOString()) });
  else if (fault.retryAfter) text = t("error.retry_after", { text, n: fault.retryAfter });
  return detailOf(fault) ? t("error.with_detail", { text, detail: detailOf(fault) }) : text;
}

/** reasons are those that a field of any kind can have. */
const reasons = [
  { pattern: /^must not be empty$/, key: "reason.empty" }, { pattern: /^must have at least (\d+) characters$/, key: "reason.least" },
  { pattern: /^must have at most (\d+) characters$/, key: "reason.most" }, { pattern: /^must not have control characters$/, key: "reason.control" },
];

/** reasonOf returns why the hub rejected a field. */
export function reasonOf(text) {
  if (language() === "en" || text === t("form.not_json")) return text;
  for (const { pattern, key } of reasons) {
    const found = pattern.exec(text);
    if (found) return t(key, { n: Number(found[1] || 0) });
  }
  return t("error.with_detail", { text: t("reason.other"), detail: text });
}

/** reasonsOf returns the reasons of all fields, or the text of the error. */
export const reasonsOf = (fault) => Object.entries(fault.fields || {}).map(([field, text]) => field + " " + reasonOf(text)).join("; ") || describe(fault);

/** describeProbe returns why a provider could not be tested: the result of its probe, or the fault of the request. */
export const describeProbe = (result) => (has("probe." + result.errorCode) ? t("probe." + result.errorCode) : describe(result));

/** Problem is the state of a page that cannot show its content. */
export function Problem({ fault, retry }) {
  return html`<div class="problem" role="alert">
    <h2>${fault.status === 404 ? t("error.not_found") : fault.status === 403 ? t("error.forbidden") : t("error.title")}</h2>
    <p>${meaningOf(fault)}</p>
    ${detailOf(fault) && html`<p class="soft" lang="en">${detailOf(fault)}</p>`}
    ${fault.requestId && html`<p class="soft">${t("error.request")} <code>${fault.requestId}</code> <${Copy} text=${fault.requestId} /></p>`}
    ${retry && ![403, 404].includes(fault.status) && html`<${Button} action=${retry}>${t("action.retry")}</${Button}>`}
  </div>`;
}

/** Copy copies a text. */
export function Copy({ text, label }) {
  const [done, setDone] = useState(false);
  return html`<${Button} kind="quiet small" label=${label || t("action.copy")} action=${async () => {
    await navigator.clipboard.writeText(text);
    setDone(true);
    setTimeout(() => setDone(false), 2000);
  }}><span aria-live="polite">${done ? t("action.copied") : t("action.copy")}</span></${Button}>`;
}

/** Skeleton appears after 200 ms. */
export const Skeleton = ({ lines = 3 }) => html`<div class="skeleton" role="status" aria-label=${t("state.loading")}>
  ${Array.from({ length: lines }, () => html`<span></span>`)}</div>`;

/** Empty has one sentence, and the action that ends the state. */
export const Empty = ({ text, children }) => html`<div class="empty"><p>${text}</p>${children}</div>`;

export const Badge = ({ kind = "", children }) => html`<span class="badge ${kind}">${children}</span>`;

/** Time is a relative time with the exact one as its title. as returns another form. */
export const Time = ({ at, as = relative }) => (at ? html`<time datetime=${textOf(at)} title=${dateTime(at)}>${as(at)}</time>` : html`<span class="soft">${t("time.never")}</span>`);

const kinds = { enabled: "ok", running: "ok", ready: "ok", active: "ok", connected: "ok", success: "ok", pending: "info", deploying: "info", starting: "info", stopping: "info", deleting: "info",
  unhealthy: "warn", missing: "warn", no_key: "warn", partial: "warn", needs_reconfiguration: "warn", failed: "bad", failure: "bad", disabled: "", stopped: "" };
/** State is the word of a state with a mark. */
export const State = ({ of }) => html`<${Badge} kind=${"state " + (kinds[of] || "")}>${t("state." + of)}</${Badge}>`;

/** @typedef {{data: any, fault: any, loading: boolean, reload: () => Promise<void>, replace: (data: any) => void}} Loading */

/** useLoad calls load when a dependency changes, and again on demand. @param {() => any} load @param {any[]} dependencies @returns {Loading} */
export function useLoad(load, dependencies = []) {
  const [state, set] = useState({ data: /** @type {any} */ (null), fault: /** @type {any} */ (null), loading: true });
  const latest = useRef(0);
  const run = useCallback(async () => {
    const mine = ++latest.current;
    try {
      const data = await load();
      if (mine === latest.current) set({ data, fault: null, loading: false });
    } catch (fault) {
      if (mine === latest.current) set((s) => ({ data: s.data, fault, loading: false }));
    }
  }, dependencies);
  useEffect(() => {
    set((s) => ({ ...s, loading: true, fault: null }));
    run();
    return () => { latest.current++; };
  }, dependencies);
  return { ...state, reload: run, replace: (data) => set({ data, fault: null, loading: false }) };
}

/** Loaded shows the data of useLoad, or why there are none. */
export function Loaded({ state, children }) {
  return html`<div class="loaded">${loaded(state, children)}</div>`;
}

/** LoadedPage is Loaded for a whole page, which has its title and place before its data. */
export function LoadedPage({ state, title, crumbs, children }) {
  if (state.data) return html`<${Part} of=${() => children(state.data)} />`;
  return html`<${Page} title=${title} crumbs=${crumbs}>${loaded(state, children)}</${Page}>`;
}

function loaded(state, children) {
  if (state.fault && !state.data) return html`<${Problem} fault=${state.fault} retry=${state.reload} />`;
  if (!state.data) return html`<${Skeleton} />`;
  return html`<${Part} of=${() => children(state.data)} />`;
}

/** useInterval calls f while the page is visible. */
export function useInterval(f, ms) {
  const latest = useRef(f);
  latest.current = f;
  useEffect(() => {
    if (!ms) return undefined;
    const timer = setInterval(() => { if (!document.hidden) latest.current(); }, ms);
    return () => clearInterval(timer);
  }, [ms]);
}

/** Tabs are links. */
export const Tabs = ({ items, label }) => html`<nav class="tabs" aria-label=${label}>
  ${items.map((item) => html`<a href=${item.href} aria-current=${item.current ? "page" : undefined}>${item.text}</a>`)}</nav>`;

/** Page is the head of a page and its content. */
export function Page({ title, crumbs = [], action, tabs, children, wide }) {
  useEffect(() => { document.title = title + " - agenthost"; }, [title]);
  return html`<div class="page ${wide ? "wide" : ""}">
    <header class="head">
      <div class="place">${crumbs.length > 0 && html`<nav aria-label=${t("frame.place")}>${crumbs.map((c) => html`<a href=${c.href}>${c.text}</a><span aria-hidden="true">/</span>`)}</nav>`}
        <h1>${title}</h1></div>
      ${action && html`<div class="actions">${action}</div>`}
    </header>
    ${tabs}
    ${children}
  </div>`;
}

/** Paging goes through the pages of a list with parameters of the address. */
export function Paging({ page, size, total, keep = {} }) {
  const last = Math.max(1, Math.ceil(total / size));
  if (last === 1) return html`<p class="paging soft" role="status">${t("list.count", { n: total })}</p>`;
  const show = (n) => setQuery({ page: n > 1 ? n : "", ...keep }, false);
  return html`<nav class="paging" aria-label=${t("list.pages")}>
    <${Button} kind="small" disabled=${page <= 1} action=${() => show(page - 1)}>${t("list.previous")}</${Button}>
    <span role="status">${t("list.page", { page, last })}</span>
    <${Button} kind="small" disabled=${page >= last} action=${() => show(page + 1)}>${t("list.next")}</${Button}>
    <span class="soft">${t("list.count", { n: total })}</span>
  </nav>`;
}

/** Search is a field whose text is a parameter of the address. */
export function Search({ value, name = "q", label }) {
  const [text, setText] = useState(value);
  const timer = useRef(0);
  useEffect(() => setText(value), [value]);
  return html`<input type="search" class="search" aria-label=${label || t("action.search")} placeholder=${label || t("action.search")} value=${text} onInput=${(event) => {
    const next = event.target.value;
    setText(next);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setQuery({ [name]: next, page: "" }), 250);
  }} />`;
}

/** Facts is a list of names and values. */
export const Facts = ({ items }) => html`<dl class="facts">${items.filter((i) => i && i[1] !== undefined && i[1] !== null && i[1] !== false && i[1] !== "").map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>`;
