// Requests to the hub, and the session of this page. The access token is only in this module.
import { textOf } from "../lib/preact.js";
import { base } from "./router.js";

/** @typedef {{id: string, username: string, display_name: string, role: "admin"|"maintainer"|"member", tenant_id: string}} User */

/** Fault is an error with what the hub responded. */
export class Fault extends Error {
  /** @param {number} status @param {any} body @param {Headers} [headers] */
  constructor(status, body, headers) {
    super(textOf(body.message));
    this.status = status;
    this.code = body.code || (status ? "status_" + status : "unreachable");
    this.data = body.data || {};
    /** @type {Record<string, string>} */
    this.fields = this.data.fields || {};
    this.requestId = body.requestId || (headers && headers.get("X-Request-Id")) || "";
    this.retryAfter = Number((headers && headers.get("Retry-After")) || 0);
  }
}

let token = "";
let expires = 0; // of the token, in milliseconds since 1970
/** @type {User|null} */
let user = null;
/** @type {any} */
let last = null; // the response with the token
/** @type {(user: User|null, login?: any) => void} */
let changed = () => {};
const shared = "hub-session" + base; // by the tabs of this hub
const tabs = new BroadcastChannel(shared);

/** currentUser returns the user who is signed in. Only the sign-in is shown without one. */
export const currentUser = () => /** @type {User} */ (user);
/** onSession sets the function that shows a change of the session, and calls it if another tab has sent one. @param {(user: User|null, login?: any) => void} f */
export function onSession(f) {
  changed = f;
  if (user) changed(user, last);
}
export const canWrite = () => user !== null && user.role !== "member";
export const isAdmin = () => user !== null && user.role === "admin";

function accept(login) {
  if (user && user.id !== login.user.id) {
    location.reload(); // another user signed in, in another tab
    return;
  }
  token = login.access_token;
  expires = Date.now() + login.expires_in * 1000;
  user = login.user;
  last = login;
  changed(user, last);
}

function forget() {
  token = "";
  user = null;
  changed(null);
}

tabs.onmessage = ({ data }) => {
  if (data.login) accept(data.login);
  else if (data.signedOut && user) forget();
};

/** @typedef {{body?: any, headers?: Record<string, string>, signal?: AbortSignal}} Options */

/** @param {string} method @param {string} path @param {Options} options */
async function send(method, path, { body, headers = {}, signal } = {}) {
  const form = body instanceof FormData || body instanceof Blob || typeof body === "string";
  /** @type {Record<string, string>} */
  const all = { Accept: "application/json", ...headers };
  if (body !== undefined && !form) all["Content-Type"] = "application/json";
  if (token && !path.startsWith("/console/")) all.Authorization = "Bearer " + token;
  try {
    return await fetch(base + path, { method, headers: all, body: body === undefined || form ? body : JSON.stringify(body), cache: "no-store", redirect: "error", signal });
  } catch (error) {
    if (signal && signal.aborted) throw error;
    throw new Fault(0, {});
  }
}

/** faultOf returns the error of a response. @param {Response} response */
export async function faultOf(response) {
  let body = {};
  try {
    body = Object(await response.json());
  } catch { /* a proxy may respond with HTML */ }
  return new Fault(response.status, typeof body.error === "string" ? { message: body.error } : body, response.headers);
}

/** isOver reports whether the hub has ended the session. A limit, a fault of a server or of a proxy, and a lost connection do not end it. */
export const isOver = (fault) => ["token_expired", "token_revoked", "unauthenticated", "refresh_reused", "account_disabled"].includes(fault.code);

const ended = ["token_expired", "token_revoked", "unauthenticated"];

/** request sends a request with a valid access token, and returns a successful response. @param {string} method @param {string} path @param {Options} options */
export async function request(method, path, options = {}) {
  if (token && Date.now() > expires - 20_000) await refresh();
  let response = await send(method, path, options);
  if (response.status === 401 && token && !path.startsWith("/console/")) {
    const fault = await faultOf(response);
    if (!ended.includes(fault.code)) throw fault;
    await refresh();
    response = await send(method, path, options);
  }
  if (response.ok) return response;
  const fault = await faultOf(response);
  if (user && !token && ended.includes(fault.code)) forget(); // the program has ended the session
  throw fault;
}

/** call sends a request and returns the JSON of the response, or null. @param {string} method @param {string} path @param {any} [body] @param {Options} options */
export async function call(method, path, body, options = {}) {
  const response = await request(method, path, { ...options, body });
  const text = await response.text();
  return text ? JSON.parse(text) : null;
}

/** @param {string} path @param {Options} [options] */
export const get = (path, options) => call("GET", path, undefined, options);

/** @type {Promise<void>|null} */
let refreshing = null;
/** refresh replaces the access token. The session ends if that is rejected. */
export function refresh() {
  const before = token;
  refreshing ||= navigator.locks.request(shared, async () => {
    if (token !== before) return; // another tab was first
    for (let attempt = 1; ; attempt++) {
      const response = await send("POST", "/console/session/refresh");
      if (response.ok) {
        const login = await response.json();
        accept(login);
        tabs.postMessage({ login });
        return;
      }
      const fault = await faultOf(response);
      if (fault.code === "refresh_reused" && attempt < 4) { // the response to another tab is on its way
        await new Promise((done) => setTimeout(done, 150 * attempt));
        continue;
      }
      if (isOver(fault)) forget();
      throw fault;
    }
  }).finally(() => { refreshing = null; });
  return refreshing;
}

/** enterAsOwn begins a session of a user whom the program that contains the hub has signed in, by what the browser sends it, such as a cookie. */
export async function enterAsOwn() {
  user = await get("/auth/userinfo");
  changed(user);
}

/** signIn signs in with {username, password}, {refresh_token} or {code}. With replace, it may replace the session of another user in this browser. */
export async function signIn(credential) {
  const login = await call("POST", "/console/session", credential);
  accept(login);
  tabs.postMessage({ login });
  return login;
}

/** signUp creates an account and returns the credential of its session, which the page continues with signIn. */
export async function signUp(path, account) {
  const { refresh_token } = await call("POST", path, account);
  return { refresh_token };
}

export async function signOut() {
  try {
    await call("DELETE", "/console/session");
  } catch (fault) {
    if (fault.status !== 401) throw fault;
  }
  tabs.postMessage({ signedOut: true });
  forget();
}

/** all returns the items of all pages of a list, at most a thousand. @param {string} path @returns {Promise<any[]>} */
export async function all(path) {
  const items = [];
  for (let page = 1; page <= 10; page++) {
    const list = await get(path + (path.includes("?") ? "&" : "?") + "page_size=100&page=" + page);
    items.push(...list.items);
    if (items.length >= list.total || !list.items.length) break;
  }
  return items;
}

/** upload sends a form with a file and reports its progress from 0 to 1. */
export function upload(method, path, form, onProgress) {
  return new Promise((resolve, reject) => {
    const xhr = new XMLHttpRequest();
    xhr.open(method, base + path);
    xhr.setRequestHeader("Accept", "application/json");
    xhr.setRequestHeader("Authorization", "Bearer " + token);
    xhr.upload.onprogress = (event) => event.lengthComputable && onProgress(event.loaded / event.total);
    xhr.onerror = () => reject(new Fault(0, {}));
    xhr.onload = () => {
      let body = {};
      try {
        body = JSON.parse(xhr.responseText);
      } catch { /* a proxy may respond with HTML */ }
      if (xhr.status < 300) resolve(body);
      else reject(new Fault(xhr.status, body));
    };
    xhr.send(form);
  });
}

/** save stores a response as a file of the user. */
export async function save(path, name) {
  const response = await request("GET", path, { headers: { Accept: "*/*" } });
  saveBlob(await response.blob(), name);
}

export function saveBlob(blob, name) {
  const a = document.createElement("a");
  a.href = URL.createObjectURL(blob);
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 60_000);
}

/** query returns a query string of the values that are not empty. */
export function query(values) {
  const used = Object.entries(values).filter(([, value]) => value !== "" && value !== undefined && value !== null);
  return used.length ? "?" + new URLSearchParams(used.map(([k, v]) => [k, String(v)])) : "";
}

export const path = (...segments) => "/" + segments.map(encodeURIComponent).join("/");
/** admin returns a path of the administration. */
export const admin = (...segments) => "/api/v1/admin" + path(...segments);
