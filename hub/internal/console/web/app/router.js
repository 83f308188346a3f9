// The address is the state of the console: every view has one, and every link is an <a>.
import { useState, useEffect } from "../lib/preact.js";

/** base is the path at which the hub is served, "" for the root. */
export const base = new URL(import.meta.url).pathname.split("/console/assets/")[0];

/** @typedef {{path: string, segments: string[], query: URLSearchParams}} Place */

/** @returns {Place} */
function read() {
  const segments = location.pathname.slice(base.length).split("/").filter(Boolean).slice(1).map(decodeURIComponent);
  return { path: location.pathname.slice(base.length), segments, query: new URLSearchParams(location.search) };
}

let place = read();
let shown = location.href; // also after the browser went back
const listeners = new Set();
/** @type {null|(() => Promise<boolean>)} */
let guard = null;

function update() {
  shown = location.href;
  place = read();
  for (const listener of listeners) listener(place);
}

export const currentPlace = () => place;

/** setGuard sets a function that is asked before the place changes; null removes it. */
export function setGuard(f) { guard = f; }

/** go shows the view of an address of the console. */
export async function go(href, { replace = false, force = false } = {}) {
  if (guard && !force) {
    if (!(await guard())) return;
    guard = null;
  }
  history[replace ? "replaceState" : "pushState"](null, "", href);
  if (!replace && !location.hash) scrollTo(0, 0);
  update();
}

/** setQuery changes parameters of the address. Empty values remove them. */
export function setQuery(values, replace = true) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(values)) {
    if (value === "" || value === null || value === undefined) query.delete(name);
    else query.set(name, String(value));
  }
  const text = query.toString();
  return go(location.pathname + (text ? "?" + text : ""), { replace });
}

export function usePlace() {
  const [now, set] = useState(place);
  useEffect(() => {
    listeners.add(set);
    set(place);
    return () => listeners.delete(set);
  }, []);
  return now;
}

addEventListener("popstate", () => {
  const target = location.href;
  if (!guard) return update();
  history.pushState(null, "", shown); // until the user has decided
  go(target);
});

addEventListener("beforeunload", (event) => { if (guard) event.preventDefault(); });

document.addEventListener("click", (event) => {
  if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const a = event.target instanceof Element && event.target.closest("a[href]");
  if (!(a instanceof HTMLAnchorElement) || a.target || a.hasAttribute("download")) return;
  const url = new URL(a.href);
  if (url.origin !== location.origin || !(url.pathname === base + "/console" || url.pathname.startsWith(base + "/console/"))) return;
  if (url.hash && url.pathname === location.pathname && url.search === location.search) return;
  event.preventDefault();
  go(url.href);
});

/** to returns the address of a view. */
export const to = (...segments) => base + "/console" + segments.map((s) => "/" + encodeURIComponent(s)).join("");
