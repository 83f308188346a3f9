// Server-sent events of a response.

/** parsed returns the value of JSON, or undefined for another text: a runtime may send any. */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** events yields the name, the data and the last id of each event. A stream that ends in an event fails. @param {Response} response */
export async function* events(response) {
  if (!response.body) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let id = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      rest += value.replace(/\r/g, "");
      for (let end = rest.indexOf("\n\n"); end >= 0; end = rest.indexOf("\n\n")) {
        const lines = rest.slice(0, end).split("\n");
        rest = rest.slice(end + 2);
        const name = lines.find((l) => l.startsWith("event:"))?.slice(6).trim();
        id = lines.find((l) => l.startsWith("id:"))?.slice(3).trim() || id;
        const data = lines.filter((l) => l.startsWith("data:")).map((l) => l.slice(5).trimStart()).join("\n");
        if (data) yield { name, id, data: parsed(data) };
      }
    }
  } finally {
    reader.cancel().catch(() => {}); // the rest of a stream that is left before its end
  }
}

const longestWait = 10_000; // ms
const giveUp = 120_000; // ms without an event

/** Attempts are those of a connection that is lost. The waits between them become longer, and end after a while: then the user decides. */
export class Attempts {
  /** @param {(state: ""|"trying"|"lost") => void} onChange */
  constructor(onChange) {
    this.onChange = onChange;
    this.wait = 0;
    this.since = 0;
    /** now makes the next attempt. */
    this.now = () => {};
  }

  connected() { this.onChange(""); }

  received() {
    this.wait = 0;
    this.since = 0;
  }

  /** next waits for the next attempt, or the end of the signal. @param {AbortSignal} signal */
  next(signal) {
    this.wait = Math.min(this.wait * 2 || 500, longestWait);
    this.since ||= Date.now();
    const tries = Date.now() - this.since < giveUp;
    this.onChange(tries ? "trying" : "lost");
    return new Promise((done) => {
      const timer = tries ? setTimeout(done, this.wait) : 0;
      signal.addEventListener("abort", done, { once: true });
      this.now = () => {
        clearTimeout(timer);
        this.received();
        done(undefined);
      };
    });
  }
}
