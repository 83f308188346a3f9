// structuredClone copies data: primitives, plain objects, arrays, dates, maps, sets, errors, regular expressions, buffers and views.
function clone(value, seen) {
  if (typeof value === "function" || typeof value === "symbol") throw new DOMException(`a ${typeof value} cannot be cloned`, "DataCloneError");
  if (value === null || typeof value !== "object") return value;
  if (mapHas(seen, value)) return mapGet(seen, value);
  const keep = (copy) => {
    mapSet(seen, value, copy);
    return copy;
  };
  if (value instanceof Date) return keep(new Date(+value));
  if (value instanceof RegExp) return keep(new RegExp(value.source, value.flags));
  if (value instanceof ArrayBuffer) return keep(value.slice(0));
  if (ArrayBuffer.isView(value)) {
    const buffer = clone(value.buffer, seen);
    return keep(new value.constructor(buffer, value.byteOffset, value instanceof DataView ? value.byteLength : value.length));
  }
  if (value instanceof Map) {
    const copy = keep(new Map());
    for (const [k, v] of value) copy.set(clone(k, seen), clone(v, seen));
    return copy;
  }
  if (value instanceof Set) {
    const copy = keep(new Set());
    for (const v of value) copy.add(clone(v, seen));
    return copy;
  }
  if (value instanceof Promise || value instanceof WeakMap || value instanceof WeakSet || value instanceof WeakRef) {
    throw new DOMException("this object cannot be cloned", "DataCloneError");
  }
  let copy = {};
  if (isArray(value)) copy = new Array(value.length);
  else if (value instanceof Error) {
    copy = new Error(value.message);
    defineProperty(copy, "name", { value: value.name, writable: true, configurable: true });
    defineProperty(copy, "stack", { value: value.stack, writable: true, configurable: true });
  }
  keep(copy);
  for (const key of keysOf(value)) {
    defineProperty(copy, key, { value: clone(value[key], seen), writable: true, enumerable: true, configurable: true });
  }
  return copy;
}
const keysOf = Object.keys;

expose({
  structuredClone: (value, options) => {
    if (options && options.transfer && options.transfer.length) throw new DOMException("nothing can be transferred", "DataCloneError");
    return clone(value, new Map());
  },
  crypto,
});
