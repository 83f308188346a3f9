// URL for http, https and other schemes of the same form. Names are not converted to punycode; the host
// does that.
const ports = { "http:": "80", "https:": "443", "ws:": "80", "wss:": "443", "ftp:": "21" };
const form = /^([a-z][a-z0-9+.-]*:)(?:\/\/(?:([^/?#@:]*)(?::([^/?#@]*))?@)?(\[[0-9a-f:.]+\]|[^/?#:@]*)(?::(\d*))?)?([^?#]*)(\?[^#]*)?(#.*)?$/is;
const escaped = (text, harmful) => replace(text, harmful, (c) => (c === " " ? "%20" : encodeURIComponent(c.isWellFormed() ? c : "\ufffd")));
const formEncoded = (text) => replace(replace(encodeURIComponent(Text(text).toWellFormed()), /[!'()~]/g, (c) => "%" + hex(charCode(c, 0), 2).toUpperCase()), /%20/g, "+");

function percentDecoded(text) {
  if (!test(/[%+]/, text)) return text;
  const raw = toBinary(toUTF8(replace(text, /\+/g, " ")));
  return fromUTF8(fromBinary(replace(raw, /%([0-9a-f]{2})/gi, (_, digits) => fromCodes(parseInt(digits, 16)))), false);
}

function withoutDots(path) {
  const out = [];
  const parts = split(path, "/");
  for (let i = 0; i < parts.length; i++) {
    const part = lower(replace(parts[i], /%2e/gi, "."));
    const last = i === parts.length - 1;
    if (part === "..") {
      if (out.length > 1) out.length--;
      if (last) push(out, "");
    } else if (part === ".") {
      if (last) push(out, "");
    } else {
      push(out, parts[i]);
    }
  }
  return join(out, "/");
}

class URLSearchParams {
  #pairs = [];
  #changed;
  constructor(init = "", changed) {
    this.#changed = changed;
    if (typeof init === "string") this.#read(init);
    else if (init[Symbol.iterator]) for (const [k, v] of init) push(this.#pairs, [Text(k), Text(v)]);
    else for (const k of keysOf(init)) push(this.#pairs, [k, Text(init[k])]);
  }
  #read(text) {
    for (const part of split(replace(text, /^\?/, ""), "&")) {
      if (!part) continue;
      const at = part.indexOf("=");
      push(this.#pairs, at < 0 ? [percentDecoded(part), ""] : [percentDecoded(slice(part, 0, at)), percentDecoded(slice(part, at + 1))]);
    }
  }
  #tell() {
    if (this.#changed) this.#changed(this.toString());
  }
  get size() {
    return this.#pairs.length;
  }
  get(name) {
    const pair = this.#pairs.find(([k]) => k === name);
    return pair ? pair[1] : null;
  }
  getAll(name) {
    return this.#pairs.filter(([k]) => k === name).map(([, v]) => v);
  }
  has(name) {
    return this.#pairs.some(([k]) => k === name);
  }
  append(name, value) {
    push(this.#pairs, [Text(name), Text(value)]);
    this.#tell();
  }
  set(name, value) {
    const first = this.#pairs.find(([k]) => k === name);
    if (!first) return this.append(name, value);
    first[1] = Text(value);
    this.#pairs = this.#pairs.filter((pair) => pair === first || pair[0] !== name);
    this.#tell();
  }
  delete(name) {
    this.#pairs = this.#pairs.filter(([k]) => k !== name);
    this.#tell();
  }
  sort() {
    this.#pairs.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
    this.#tell();
  }
  forEach(fn, self) {
    for (const [k, v] of this.#pairs) apply(fn, self, [v, k, this]);
  }
  *entries() {
    for (const [k, v] of this.#pairs) yield [k, v];
  }
  *keys() {
    for (const [k] of this.#pairs) yield k;
  }
  *values() {
    for (const [, v] of this.#pairs) yield v;
  }
  [Symbol.iterator]() {
    return this.entries();
  }
  toString() {
    return join(this.#pairs.map(([k, v]) => formEncoded(k) + "=" + formEncoded(v)), "&");
  }
}

class URL {
  #parts = {};
  #params;
  constructor(address, base) {
    this.#set(Text(address), base === undefined ? undefined : new URL(base));
  }
  #set(address, base) {
    let text = replace(replace(address, /^[\0-\x20]+|[\0-\x20]+$/g, ""), /[\t\n\r]/g, "");
    if (!test(/^[a-z][a-z0-9+.-]*:/i, text)) {
      if (!base) throw new TypeError(`${stringify(address)} is no URL`);
      text = base.#resolve(text);
    }
    if (test(/^(https?|wss?|ftp):/i, text)) text = replace(text, /^([a-z]+:)[\\/]*([^?#]*)/i, (_, scheme, rest) => `${scheme}//${replace(rest, /\\/g, "/")}`);
    const m = match(form, text);
    if (!m) throw new TypeError(`${stringify(address)} is no URL`);
    const protocol = lower(m[1]);
    const known = protocol in ports;
    const host = known ? lower(m[4] ?? "") : m[4];
    if (known && (!host || test(/[\0-\x20<>^|%\\]/, host))) throw new TypeError(`${stringify(address)} is no URL`);
    let port = m[5] ? Text(+m[5]) : "";
    if (+port > 65535) throw new TypeError(`${stringify(address)} is no URL`);
    if (port === ports[protocol]) port = "";
    const path = escaped(m[6], /[\0-\x20"<>`{}\x7f-\u{10ffff}]/gu);
    this.#parts = {
      protocol, username: m[2] ?? "", password: m[3] ?? "", host: host, port,
      pathname: host === undefined ? path : withoutDots(path || (known ? "/" : "")),
      search: escaped(m[7] && m[7] !== "?" ? m[7] : "", /[\0-\x20"'<>\x7f-\u{10ffff}]/gu),
      hash: escaped(m[8] && m[8] !== "#" ? m[8] : "", /[\0-\x20"<>`\x7f-\u{10ffff}]/gu),
    };
    this.#params = undefined;
  }
  #resolve(text) {
    const p = this.#parts;
    if (p.host === undefined) throw new TypeError("the base has no path to start from");
    if (test(/^[\\/]{2}/, text)) return p.protocol + text;
    const origin = this.#origin(true);
    if (test(/^[\\/]/, text)) return origin + text;
    if (text === "" || text[0] === "#") return origin + p.pathname + p.search + text;
    if (text[0] === "?") return origin + p.pathname + text;
    return origin + replace(p.pathname, /[^/]*$/, "") + text;
  }
  #origin(full) {
    const p = this.#parts;
    const user = full && (p.username || p.password) ? p.username + (p.password ? ":" + p.password : "") + "@" : "";
    return p.host === undefined ? p.protocol : `${p.protocol}//${user}${this.host}`;
  }
  #change(name, value) {
    const p = this.#parts;
    const next = { ...p, [name]: value };
    const user = next.username || next.password ? next.username + (next.password ? ":" + next.password : "") + "@" : "";
    const start = next.host === undefined ? next.protocol : `${next.protocol}//${user}${next.host}${next.port ? ":" + next.port : ""}`;
    try {
      this.#set(start + next.pathname + next.search + next.hash);
    } catch {} // what does not fit is ignored
  }
  static canParse(address, base) {
    try {
      return !!new URL(address, base);
    } catch {
      return false;
    }
  }
  static parse(address, base) {
    return URL.canParse(address, base) ? new URL(address, base) : null;
  }
  get href() {
    return this.#origin(true) + this.#parts.pathname + this.#parts.search + this.#parts.hash;
  }
  set href(value) {
    this.#set(Text(value));
  }
  get origin() {
    return this.#parts.protocol in ports ? this.#origin(false) : "null";
  }
  get host() {
    return (this.#parts.host ?? "") + (this.#parts.port ? ":" + this.#parts.port : "");
  }
  get hostname() {
    return this.#parts.host ?? "";
  }
  set hostname(value) {
    this.#change("host", Text(value));
  }
  get searchParams() {
    return (this.#params ??= new URLSearchParams(this.#parts.search, (text) => (this.#parts.search = text && "?" + text)));
  }
  toString() {
    return this.href;
  }
  toJSON() {
    return this.href;
  }
  static {
    for (const name of ["protocol", "username", "password", "port", "pathname"]) {
      defineProperty(URL.prototype, name, {
        get() {
          return this.#parts[name];
        },
        set(value) {
          this.#change(name, name === "protocol" ? replace(Text(value), /:?$/, ":") : Text(value));
        },
      });
    }
    for (const [name, mark] of [["search", "?"], ["hash", "#"]]) {
      defineProperty(URL.prototype, name, {
        get() {
          return this.#parts[name];
        },
        set(value) {
          value = Text(value);
          this.#change(name, value && value[0] !== mark ? mark + value : value);
        },
      });
    }
  }
}

expose({ URL, URLSearchParams });
