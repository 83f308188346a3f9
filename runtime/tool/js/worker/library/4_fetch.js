// fetch sends a few concurrent requests to the host; the others wait.
const tokens = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const valueForm = /^[^\0\r\n]*$/;

class Headers {
  #values = new Map();
  constructor(init) {
    if (init === undefined || init === null) return;
    if (init[Symbol.iterator]) for (const [k, v] of init) this.append(k, v);
    else for (const k of keysOf(init)) this.append(k, init[k]);
  }
  append(name, value) {
    const before = this.get(name);
    this.set(name, before === null ? value : before + ", " + value);
  }
  set(name, value) {
    const text = replace(Text(value), /^[\t\r\n ]+|[\t\r\n ]+$/g, "");
    if (!test(tokens, name) || !test(valueForm, text)) throw new TypeError(`${stringify(name)} is no header, or has no header's value`);
    mapSet(this.#values, lower(Text(name)), text);
  }
  get(name) {
    return mapGet(this.#values, lower(Text(name))) ?? null;
  }
  has(name) {
    return mapHas(this.#values, lower(Text(name)));
  }
  delete(name) {
    mapDelete(this.#values, lower(Text(name)));
  }
  forEach(fn, self) {
    for (const [k, v] of this) apply(fn, self, [v, k, this]);
  }
  *entries() {
    yield* [...this.#values].sort(([a], [b]) => (a < b ? -1 : 1));
  }
  *keys() {
    for (const [k] of this) yield k;
  }
  *values() {
    for (const [, v] of this) yield v;
  }
  [Symbol.iterator]() {
    return this.entries();
  }
}

// bodyOf returns a body as text or binary string, with its default type.
function bodyOf(value) {
  if (value === undefined || value === null) return { text: "" };
  if (value instanceof URLSearchParams) return { text: value.toString(), type: "application/x-www-form-urlencoded;charset=UTF-8" };
  const bytes = bytesOf(value);
  return bytes ? { binary: toBinary(bytes) } : { text: Text(value), type: "text/plain;charset=UTF-8" };
}

class Response {
  #body;
  #used = false;
  #meta;
  #headers;
  constructor(body, init = {}, meta) {
    this.#body = bodyOf(body);
    this.#headers = new Headers(init.headers);
    if (!meta && this.#body.type && !this.#headers.has("content-type")) this.#headers.set("content-type", this.#body.type);
    const status = init.status ?? 200;
    if (!(status >= 200 && status < 600)) throw new RangeError("a status is from 200 to 599");
    this.#meta = { url: "", redirected: false, status, statusText: Text(init.statusText ?? ""), ...meta };
  }
  static json(value, init = {}) {
    const headers = new Headers(init.headers);
    if (!headers.has("content-type")) headers.set("content-type", "application/json");
    return new Response(stringify(value), { ...init, headers });
  }
  get status() {
    return this.#meta.status;
  }
  get statusText() {
    return this.#meta.statusText;
  }
  get ok() {
    return this.status >= 200 && this.status < 300;
  }
  get url() {
    return this.#meta.url;
  }
  get redirected() {
    return this.#meta.redirected;
  }
  get headers() {
    return this.#headers;
  }
  get bodyUsed() {
    return this.#used;
  }
  #take() {
    if (this.#used) throw new TypeError("the body was read before");
    this.#used = true;
    return this.#body;
  }
  async text() {
    const body = this.#take();
    const text = body.binary === undefined ? body.text : fromUTF8(fromBinary(body.binary), false);
    return text[0] === "\ufeff" ? slice(text, 1) : text;
  }
  async json() {
    return parse(await this.text());
  }
  async bytes() {
    const body = this.#take();
    return body.binary === undefined ? toUTF8(body.text) : fromBinary(body.binary);
  }
  async arrayBuffer() {
    return (await this.bytes()).buffer;
  }
  clone() {
    if (this.#used) throw new TypeError("the body was read before");
    const copy = new Response(null, { headers: this.#headers }, this.#meta);
    copy.#body = this.#body;
    return copy;
  }
}

const atOnce = 8;
const total = 1000;
const queue = []; // requests that wait for a free place
const pending = new Map(); // requests of the host, by number
let asked = 0;

function next() {
  while (pending.size < atOnce && queue.length) {
    const one = splice(queue, 0, 1)[0];
    if (one.over) continue;
    try {
      one.id = host("fetch", one.head, one.body, one.binary);
      mapSet(pending, one.id, one);
    } catch (error) {
      one.reject(error);
    }
  }
}

// fetched receives a response from the host, with the body as text or as a binary string. It reports
// whether the script was waiting for it.
function fetched(head, body, binary) {
  const answer = parse(head);
  const one = mapGet(pending, answer.fetch);
  if (!one) return false;
  mapDelete(pending, answer.fetch);
  one.over = true;
  next();
  if (answer.error) {
    one.reject(new TypeError("fetch failed: " + answer.error));
    return true;
  }
  try {
    const { status, statusText = "", headers, url } = answer;
    const content = binary ? fromBinary(body) : body;
    one.resolve(new Response(content, { headers: headers ?? [] }, { status, statusText, url, redirected: url !== one.url }));
  } catch (error) {
    one.reject(error);
  }
  return true;
}

function request(address, init, one) {
  inCall("fetch");
  if (asked++ >= total) throw new TypeError(`fetch failed: a call may fetch ${total} times`);
  const url = new URL(address);
  if (url.protocol !== "http:" && url.protocol !== "https:") throw new TypeError("fetch failed: it knows http and https alone");
  url.hash = "";
  const headers = new Headers(init.headers);
  const { text, binary, type } = bodyOf(init.body);
  const method = Text(init.method ?? "GET").toUpperCase();
  if (!test(tokens, method)) throw new TypeError("fetch failed: the method is no method");
  if (init.body !== undefined && init.body !== null && (method === "GET" || method === "HEAD")) throw new TypeError(`fetch failed: ${method} has no body`);
  if (type && !headers.has("content-type")) headers.set("content-type", type);
  one.url = url.href;
  one.head = stringify({ url: url.href, method, headers: [...headers], redirect: Text(init.redirect ?? "follow") });
  one.body = binary ?? text;
  one.binary = binary !== undefined;
}

function fetch(address, init = {}) {
  return new Promise((resolve, reject) => {
    const one = { resolve, reject, over: false };
    request(address, init ?? {}, one);
    const { signal } = init ?? {};
    if (signal) {
      signal.throwIfAborted();
      signal.addEventListener("abort", () => {
        if (one.over) return;
        one.over = true;
        if (one.id !== undefined && mapDelete(pending, one.id)) host("giveUp", one.id);
        reject(signal.reason);
        next();
      });
    }
    push(queue, one);
    next();
  });
}

kit.fetched = fetched;
expose({ Headers, Response, fetch });
