class DOMException extends Error {
  #name;
  constructor(message = "", name = "Error") {
    super(message);
    this.#name = Text(name);
  }
  get name() {
    return this.#name;
  }
}

const forPrelude = {}; // only this file can make signals
class AbortSignal {
  #listeners = [];
  #aborted = false;
  #reason;
  onabort = null;
  constructor(key) {
    if (key !== forPrelude) throw new TypeError("an AbortSignal comes from an AbortController");
  }
  get aborted() {
    return this.#aborted;
  }
  get reason() {
    return this.#reason;
  }
  throwIfAborted() {
    if (this.#aborted) throw this.#reason;
  }
  addEventListener(type, listener) {
    if (type === "abort" && listener) push(this.#listeners, listener);
  }
  removeEventListener(type, listener) {
    for (let i = this.#listeners.length - 1; i >= 0; i--) if (this.#listeners[i] === listener) splice(this.#listeners, i, 1);
  }
  static stop(signal, reason) {
    if (signal.#aborted) return;
    signal.#aborted = true;
    signal.#reason = reason === undefined ? new DOMException("the operation was aborted", "AbortError") : reason;
    const event = freeze({ type: "abort", target: signal });
    const listeners = signal.#listeners;
    signal.#listeners = [];
    if (signal.onabort) push(listeners, signal.onabort);
    for (let i = 0; i < listeners.length; i++) {
      try {
        const listener = listeners[i];
        if (typeof listener === "function") apply(listener, signal, [event]);
        else listener.handleEvent(event);
      } catch (error) {
        fail(error);
      }
    }
  }
  static abort(reason) {
    const signal = new AbortSignal(forPrelude);
    abortSignal(signal, reason);
    return signal;
  }
  static timeout(delay) {
    const signal = new AbortSignal(forPrelude);
    addTimer(() => abortSignal(signal, new DOMException("the operation took too long", "TimeoutError")), delay, [], false);
    return signal;
  }
  static any(signals) {
    const signal = new AbortSignal(forPrelude);
    for (const one of signals) {
      if (one.aborted) abortSignal(signal, one.reason);
      else one.addEventListener("abort", () => abortSignal(signal, one.reason));
    }
    return signal;
  }
}
const abortSignal = AbortSignal.stop;
delete AbortSignal.stop;

class AbortController {
  #signal = new AbortSignal(forPrelude);
  get signal() {
    return this.#signal;
  }
  abort(reason) {
    abortSignal(this.#signal, reason);
  }
}

expose({ DOMException, AbortSignal, AbortController });
