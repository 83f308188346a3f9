// The frame of every page: groups of pages, the search, and the menu of the user.
import { html, useEffect, useRef, useState } from "../lib/preact.js";
import { get, signOut } from "./api.js";
import { base, go, to } from "./router.js";
import { language, languages, t, titleOf } from "./text.js";
import { Button, isEnter, useInterval, useLoad } from "../parts/basic.js";
import { Dialog } from "../parts/dialog.js";

/** groups are the pages of a role. */
export function groups(user) {
  const write = user.role !== "member";
  const admin = user.role === "admin";
  return [
    ["chat", "approvals", "agents"],
    ["providers", "tools", "skills", "mcps", "knowledge", "scenes"],
    [admin && "users", write && "chats", admin && "audit", write && "usage", write && "labels", admin && "settings"].filter(Boolean),
  ].filter((g) => g.length);
}

const icons = {
  chat: "M4 5h16v11H9l-5 4z", agents: "M6 9h12v9H6zM12 9V5M9 13h.1M15 13h.1", providers: "M5 6h14v5H5zM5 13h14v5H5zM8 8.5h.1M8 15.5h.1",
  tools: "M14 6a4 4 0 0 0 5 5l-8 8-4-4 8-8zM7 15l3 3", skills: "M12 4l2.5 5 5.5.8-4 3.9 1 5.5-5-2.6-5 2.6 1-5.5-4-3.9 5.5-.8z",
  mcps: "M8 4v5M16 4v5M6 9h12v3a6 6 0 0 1-12 0zM12 18v3", knowledge: "M5 5h6a2 2 0 0 1 1 1v14a2 2 0 0 0-1-1H5zM19 5h-6a2 2 0 0 0-1 1v14a2 2 0 0 1 1-1h6z",
  scenes: "M4 6h16v12H4zM10 9l5 3-5 3z", users: "M9 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM3 19a6 6 0 0 1 12 0M16 5a3 3 0 0 1 0 6M17 14a5 5 0 0 1 4 5",
  approvals: "M4 5h16v14H4zM8 12l3 3 5-6",
  chats: "M3 5h12v8H8l-4 3v-3H3zM15 9h6v8h-1v3l-4-3h-5v-4", audit: "M7 4h10v16H7zM10 8h4M10 12h4M10 16h2", usage: "M5 19V11M10 19V5M15 19v-6M20 19V8", labels: "M4 4h8l8 8-8 8-8-8zM8 8h.1", settings: "M4 7h9M17 7h3M4 17h3M11 17h9M15 5v4M9 15v4",
  menu: "M4 7h16M4 12h16M4 17h16",
};
const Icon = ({ name }) => html`<svg viewBox="0 0 24 24" aria-hidden="true"><path d=${icons[name]} /></svg>`;

/** useDismissed closes a menu by Escape and a click elsewhere. */
function useDismissed(ref, close) {
  useEffect(() => {
    const outside = (event) => { if (ref.current && !ref.current.contains(event.target)) close(); };
    const escape = (event) => { if (event.key === "Escape") close(); };
    document.addEventListener("click", outside);
    document.addEventListener("keydown", escape);
    return () => {
      document.removeEventListener("click", outside);
      document.removeEventListener("keydown", escape);
    };
  }, []);
}

function UserMenu({ user }) {
  const [open, setOpen] = useState(false);
  const ref = useRef(null);
  useDismissed(ref, () => setOpen(false));
  const theme = document.documentElement.dataset.theme || "";
  const setTheme = (value) => {
    if (value) {
      localStorage.setItem("theme", value);
      document.documentElement.dataset.theme = value;
    } else {
      localStorage.removeItem("theme");
      delete document.documentElement.dataset.theme;
    }
    setOpen(false);
  };
  const setLanguage = (value) => {
    localStorage.setItem("language", value);
    location.reload();
  };
  const name = user.display_name || user.username;
  return html`<div class="menu" ref=${ref}>
    <button type="button" class="button quiet user" aria-expanded=${open ? "true" : "false"} onClick=${() => setOpen(!open)}>
      <span class="avatar" aria-hidden="true">${[...name][0].toUpperCase()}</span><span class="name">${name}</span></button>
    ${open && html`<div class="items">
      <p class="soft">${t("frame.signed_in", { name: user.username, role: t("role." + user.role), org: user.tenant_id })}</p>
      <a href=${to("account")} onClick=${() => setOpen(false)}>${t("page.account")}</a>
      <a href=${base + "/docs"} target="_blank" rel="noopener">${t("frame.docs")}</a>
      <label>${t("frame.theme")}<select value=${theme} onChange=${(e) => setTheme(e.target.value)}>
        ${["", "light", "dark"].map((v) => html`<option value=${v} selected=${v === theme}>${t("theme." + (v || "system"))}</option>`)}</select></label>
      <label>${t("frame.language")}<select value=${language()} onChange=${(e) => setLanguage(e.target.value)}>
        ${Object.entries(languages).map(([v, text]) => html`<option value=${v} selected=${v === language()} lang=${v}>${text}</option>`)}</select></label>
      <${Button} action=${async () => { setOpen(false); await signOut(); }}>${t("frame.sign_out")}</${Button}>
    </div>`}
  </div>`;
}

/** search returns the pages and things whose names contain a text. */
async function search(text, user) {
  /** @type {{href: string, text: string, kind: string, detail?: string}[]} */
  const found = groups(user).flat().concat("account").map((p) => ({ href: to(p), text: t("page." + p), kind: t("frame.kind_page") }))
    .filter((p) => p.text.toLowerCase().includes(text.toLowerCase()));
  const kinds = ["agents", "tools", "skills", "mcps", "knowledge", "scenes", "providers"];
  const lists = text ? await Promise.all(kinds.map((k) => get("/api/v1/admin/" + k + "?page_size=5&q=" + encodeURIComponent(text)).catch(() => ({ items: [] })))) : [];
  lists.forEach((list, i) => found.push(...list.items.map((item) => ({ href: to(kinds[i], kinds[i] === "providers" ? item.id : item.name), text: titleOf(item), detail: item.name, kind: t("page." + kinds[i]) }))));
  if (text && user.role === "admin") {
    const users = await get("/api/v1/admin/users?page_size=100").catch(() => ({ items: [] }));
    found.push(...users.items.filter((u) => (u.username + " " + u.displayName).toLowerCase().includes(text.toLowerCase())).slice(0, 5)
      .map((u) => ({ href: to("users", u.id), text: u.displayName || u.username, detail: u.username, kind: t("page.users") })));
  }
  return found.slice(0, 20);
}

function Palette({ user, close }) {
  const [text, setText] = useState("");
  const [results, setResults] = useState(/** @type {any[]} */ ([]));
  const [at, setAt] = useState(0);
  useEffect(() => {
    let current = true;
    const timer = setTimeout(() => search(text, user).then((r) => { if (current) { setResults(r); setAt(0); } }), text ? 120 : 0);
    return () => { current = false; clearTimeout(timer); };
  }, [text]);
  const choose = (result) => { close(); go(result.href); };
  const onKeyDown = (event) => {
    if (event.key === "Escape" && !event.isComposing) {
      event.preventDefault(); // a search field would take the first one to clear itself
      close();
      return;
    }
    const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (move && results.length) {
      event.preventDefault();
      setAt((at + move + results.length) % results.length);
    } else if (isEnter(event) && results[at]) {
      event.preventDefault();
      choose(results[at]);
    }
  };
  return html`<${Dialog} title=${t("frame.search")} onClose=${close}>
    <input type="search" role="combobox" aria-label=${t("frame.search")} aria-expanded="true" aria-controls="results" aria-activedescendant=${results[at] ? "result" + at : undefined}
      value=${text} onInput=${(e) => setText(e.target.value)} onKeyDown=${onKeyDown} placeholder=${t("frame.search_hint")} />
    <ul id="results" class="results" role="listbox" aria-label=${t("frame.results")}>${results.map((r, i) => html`<li id=${"result" + i} role="option" aria-selected=${i === at ? "true" : "false"} onClick=${() => choose(r)}>
      <span>${r.text}</span>${r.detail && r.detail !== r.text && html`<code>${r.detail}</code>`}<span class="soft">${r.kind}</span></li>`)}</ul>
    ${text && !results.length && html`<p class="soft" role="status">${t("list.nothing")}</p>`}
  </${Dialog}>`;
}

/** Waits is the number of what waits for the user. */
function Waits() {
  const state = useLoad(() => get("/api/v1/approvals?page_size=1"));
  useInterval(state.reload, 5000);
  useEffect(() => {
    addEventListener("waits", state.reload);
    return () => removeEventListener("waits", state.reload);
  }, [state.reload]);
  const n = state.data ? state.data.total : 0;
  return n > 0 ? html`<span class="count" role="img" aria-label=${t("waits.count", { n })}>${n}</span>` : null;
}

export function Frame({ user, place, children }) {
  const [searching, setSearching] = useState(false);
  const [drawer, setDrawer] = useState(false);
  useEffect(() => setDrawer(false), [place.path]);
  useEffect(() => {
    const keys = (event) => {
      if (event.key === "k" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        setSearching(true);
      } else if (event.key === "Escape") setDrawer(false);
    };
    document.addEventListener("keydown", keys);
    return () => document.removeEventListener("keydown", keys);
  }, []);
  return html`<div class="frame ${drawer ? "open" : ""}">
    <a class="skip" href="#main" onClick=${(e) => { e.preventDefault(); document.getElementById("main")?.focus(); }}>${t("frame.skip")}</a>
    <header class="bar">
      <button type="button" class="button quiet icon drawer" aria-label=${t("frame.pages")} aria-expanded=${drawer ? "true" : "false"} aria-controls="pages" onClick=${() => setDrawer(!drawer)}><${Icon} name="menu" /></button>
      <a class="brand" href=${to()}>agenthost</a>
      <button type="button" class="button plain find" onClick=${() => setSearching(true)}><span>${t("action.search")}</span><kbd>Ctrl K</kbd></button>
      <${UserMenu} user=${user} />
    </header>
    <nav class="side" id="pages" aria-label=${t("frame.pages")}>${groups(user).map((g) => html`<ul>${g.map((p) => html`<li><a href=${to(p)} aria-current=${place.segments[0] === p ? "page" : undefined}>
      <${Icon} name=${p} />${t("page." + p)}${p === "approvals" && html`<${Waits} />`}</a></li>`)}</ul>`)}</nav>
    <main id="main" tabindex="-1" data-path=${place.path}>${children}</main>
    ${searching && html`<${Palette} user=${user} close=${() => setSearching(false)} />`}
  </div>`;
}
