// Shared parts of the prelude. The files of this folder are one function: tool code can access only
// globalThis. Built-in functions are stored here before tool code can replace them.
const host = globalThis.__host;
delete globalThis.__host;

const { parse, stringify } = JSON;
const { apply } = Reflect;
const { freeze, defineProperty } = Object;
const { isArray } = Array;
const { min, max, floor, random } = Math;
const now = Date.now;
const Text = String;
const unbound = (method) => (self, ...args) => apply(method, self, args);
const then = unbound(Promise.prototype.then);
const slice = unbound(String.prototype.slice);
const charCode = unbound(String.prototype.charCodeAt);
const lower = unbound(String.prototype.toLowerCase);
const replace = unbound(String.prototype.replace);
const split = unbound(String.prototype.split);
const join = unbound(Array.prototype.join);
const push = unbound(Array.prototype.push);
const splice = unbound(Array.prototype.splice);
const includes = unbound(Array.prototype.includes);
const test = unbound(RegExp.prototype.test);
const match = unbound(RegExp.prototype.exec);
const mapGet = unbound(Map.prototype.get);
const mapSet = unbound(Map.prototype.set);
const mapHas = unbound(Map.prototype.has);
const mapDelete = unbound(Map.prototype.delete);
const fromCodes = String.fromCharCode;

// expose defines globals like those of the engine: writable, not enumerable.
function expose(names) {
  for (const name in names) {
    const proto = names[name].prototype;
    if (proto) freeze(proto);
    freeze(names[name]);
    if (later[name] !== false) put(name, names[name]);
  }
}

function put(name, value) {
  defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: false });
}

// These names load the library on first use: few tools need it, and it takes longer than the prelude.
// False: the tool has assigned its own value.
const later = { __proto__: null };
for (const name of split("TextEncoder TextDecoder atob btoa structuredClone crypto URL URLSearchParams Headers Response fetch", " ")) {
  later[name] = true;
  defineProperty(globalThis, name, {
    configurable: true,
    get() {
      if (!kit.loaded) host("library");
      kit.loaded = true;
      return globalThis[name];
    },
    set(value) {
      later[name] = false;
      put(name, value);
    },
  });
}

let definition; // the default export of the file
let limit = 0; // of a result, in characters
let stopping; // AbortController of the call
let calling = false;
let settled = false;

// asText returns the text of a value for the model.
function asText(value) {
  if (typeof value === "string") return value;
  if (value === undefined) return "";
  const text = stringify(value);
  return text === undefined ? "" : text;
}

function succeed(value) {
  if (settled) return;
  let text;
  try {
    text = asText(value);
  } catch (error) {
    return fail(error);
  }
  settled = true;
  host("result", slice(text, 0, limit), text.length > limit);
}

// fail passes an exception to the host. It can be any value, and the memory can be exhausted.
function fail(error) {
  if (settled) return;
  settled = true;
  try {
    let head = "the tool threw something that has no text";
    let stack = "";
    try {
      if (error !== null && typeof error === "object" && typeof error.message === "string") {
        const name = error.name;
        head = (typeof name === "string" && name ? slice(name, 0, 256) + ": " : "") + slice(error.message, 0, 8192);
        if (typeof error.stack === "string") stack = slice(error.stack, 0, 8192);
      } else if (error === null) {
        head = "the tool threw null, or is out of memory";
      } else {
        head = "the tool threw " + slice(inspect(error), 0, 8192);
      }
    } catch {}
    host("error", head, stack);
  } catch {
    host("error", noMemory, "");
  }
}
const noMemory = "the tool is out of memory";

function define(value) {
  if (value === undefined) throw new TypeError("there is no default export");
  if (value === null || typeof value !== "object") throw new TypeError("the default export is not an object");
  for (const key of ["name", "description"]) {
    if (typeof value[key] !== "string") throw new TypeError(`${key} of the default export is not a string`);
  }
  if (typeof value.call !== "function") throw new TypeError("call of the default export is not a function");
  const schema = value.inputSchema;
  if (schema !== undefined && (schema === null || typeof schema !== "object" || isArray(schema))) {
    throw new TypeError("inputSchema of the default export is not an object");
  }
  const type = schema?.type ?? "object"; // without a type, any object
  if (type !== "object" && !(isArray(type) && includes(type, "object"))) {
    throw new TypeError('inputSchema of the default export is not of type "object"');
  }
  definition = value;
}

// load runs the tool's file and passes its definition to the host.
function load(file, most) {
  limit = most;
  try {
    file();
    delete globalThis.__define;
    if (!definition) throw new TypeError("there is no default export");
    settled = true;
    const { name, description, inputSchema } = definition;
    host("definition", stringify({ name, description, inputSchema }));
  } catch (error) {
    settled = false;
    fail(error);
  }
}

function start(input, sessionId, runId) {
  calling = true;
  settled = false;
  try {
    stopping = new AbortController();
    const context = freeze({ signal: stopping.signal, sessionId, runId, log: (...args) => log("log", args) });
    const answer = apply(definition.call, definition, [parse(input), context]);
    if (answer !== null && (typeof answer === "object" || typeof answer === "function") && typeof answer.then === "function") {
      then(new Promise((resolve) => resolve(answer)), succeed, fail);
    } else {
      succeed(answer);
    }
  } catch (error) {
    fail(error);
  }
}

for (const name of ["dispose", "asyncDispose"]) if (!Symbol[name]) defineProperty(Symbol, name, { value: Symbol(name) }); // for using
defineProperty(globalThis, "__define", { value: define, configurable: true });
