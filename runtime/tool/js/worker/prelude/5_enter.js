expose({ defineTool: (tool) => tool });

// kit is used by the library, which adds fetched.
const kit = { host, parse, stringify, apply, defineProperty, isArray, floor, random, Text, slice, charCode, lower, replace, split, join, push, splice, test, match, mapGet, mapSet, mapHas, mapDelete, fromCodes, expose, inCall, DOMException };

// The function that the host calls.
return (what, a, b, c) => {
  switch (what) {
    case "load":
      return load(a, b);
    case "library":
      return a(kit);
    case "start":
      return start(a, b, c);
    case "tick":
      return tick();
    case "fetched":
      return kit.fetched(a, b, c);
    case "stop":
      return stopping.abort(new DOMException("the call was stopped", "AbortError"));
  }
};
