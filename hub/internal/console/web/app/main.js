// The first module: it finds the session and shows the view of the address.
import { html, render, useEffect, useState } from "../lib/preact.js";
import { currentUser, isOver, onSession, refresh } from "./api.js";
import { go, to, usePlace } from "./router.js";
import { loadLanguage, t } from "./text.js";
import { Frame } from "./frame.js";
import { describe, Skeleton } from "../parts/basic.js";
import { Part } from "../parts/part.js";

/** Lazy shows a component of a module when it has been loaded. A newer hub has other modules: then the page is loaded again. */
function Lazy({ load, name, ...props }) {
  const [found, set] = useState(null);
  useEffect(() => {
    let current = true;
    load().then((module) => current && set({ component: module[name] }), () => {
      const last = Number(sessionStorage.getItem("reloaded") || 0);
      if (Date.now() - last > 10_000) {
        sessionStorage.setItem("reloaded", String(Date.now()));
        location.reload();
      }
    });
    return () => { current = false; };
  }, [name]);
  return found ? html`<${found.component} ...${props} />` : html`<div class="page"><${Skeleton} /></div>`;
}

const lists = ["tools", "skills", "mcps", "knowledge", "scenes", "providers"];

/** viewOf returns the view of a place. */
function viewOf(place, user) {
  const [page = "", item, part] = place.segments;
  const admin = user.role === "admin";
  const write = user.role !== "member";
  const view = (name, load) => ({ name, load });
  if (page === "chat") return view("Chat", () => import("../pages/chat.js"));
  if (page === "approvals") return view("Approvals", () => import("../pages/approvals.js"));
  if (page === "agents" && item) return view("Agent", () => import("../pages/agent.js"));
  if (page === "agents") return view("Agents", () => import("../pages/agents.js"));
  if (lists.includes(page) && !part) return view("Component", () => import("../pages/component.js"));
  if (page === "cli" && item && part) return view("Program", () => import("../pages/program.js"));
  if (page === "account") return view("Account", () => import("../pages/account.js"));
  if (page === "users" && admin) return item ? view("User", () => import("../pages/users.js")) : view("Users", () => import("../pages/users.js"));
  if (page === "chats" && write) return item ? view("AnyChat", () => import("../pages/chats.js")) : view("Chats", () => import("../pages/chats.js"));
  if (page === "audit" && admin) return view("Audit", () => import("../pages/audit.js"));
  if (page === "usage" && write) return view("Usage", () => import("../pages/usage.js"));
  if (page === "settings" && admin) return view("Settings", () => import("../pages/settings.js"));
  if (["labels", "settings"].includes(page) && write) return view("Labels", () => import("../pages/labels.js")); // at both addresses for maintainers
  if (["", "login", "register"].includes(page)) return view("Start", () => import("../pages/start.js"));
  return view("Missing", () => import("../pages/start.js"));
}

const longestWait = 10_000; // milliseconds between two attempts

/** findSession gets an access token. It tries again until the hub grants or rejects one, and reports why it waits. */
async function findSession(onFault) {
  for (let wait = 500; !currentUser(); wait = Math.min(2 * wait, longestWait)) {
    try {
      await refresh();
      return;
    } catch (fault) {
      if (isOver(fault)) return;
      onFault(fault);
      await new Promise((done) => setTimeout(done, Math.max(wait, Math.min(fault.retryAfter * 1000, longestWait))));
    }
  }
}

function App() {
  const place = usePlace();
  const [session, setSession] = useState({ user: /** @type {import("./api.js").User|null} */ (null), ready: false, mustChange: false });
  const [fault, setFault] = useState(/** @type {any} */ (null));
  useEffect(() => {
    // Another tab may have sent its login before: then the user is known.
    onSession((user, login) => setSession({ user, ready: true, mustChange: Boolean(login && login.must_change_password) }));
    const registers = place.segments[0] === "register";
    if (registers || new URLSearchParams(location.hash.slice(1)).has("code")) setSession((s) => ({ ...s, ready: true }));
    else findSession(setFault);
  }, []);
  if (!session.ready && fault) return html`<main class="box"><p class="brand">agenthost</p><h1>${t("error.title")}</h1><p role="alert">${describe(fault)}</p><p role="status">${t("session.again")}</p></main>`;
  if (!session.ready) return html`<div class="page"><${Skeleton} /></div>`;
  if (!session.user || session.mustChange) {
    return html`<${Lazy} key="SignIn" name="SignIn" load=${() => import("../pages/signin.js")} mustChange=${session.mustChange} onDone=${() => {
      setSession((s) => ({ ...s, mustChange: false }));
      if (["login", "register"].includes(place.segments[0])) go(to(), { replace: true, force: true });
    }} />`;
  }
  const { name, load } = viewOf(place, session.user);
  return html`<${Frame} user=${session.user} place=${place}><${Part} key=${name} of=${() => html`<${Lazy} name=${name} load=${load} place=${place} user=${session.user} />`} /></${Frame}>`;
}

await loadLanguage();
render(html`<${App} />`, /** @type {HTMLElement} */ (document.getElementById("root")));
