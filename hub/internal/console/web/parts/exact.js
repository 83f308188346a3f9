// Texts that a person must read exactly before a decision.
import { html, textOf } from "../lib/preact.js";
import { jsonOf, t } from "../app/text.js";

// What has no glyph of its own, or moves others: control, bidirectional, invisible and unassigned characters, and all spaces but the usual one.
const unseen = "(?![\\n\\t ])[\\p{C}\\p{Z}\\p{Default_Ignorable_Code_Point}\\u2800]";
const one = new RegExp(unseen, "gu");
const several = new RegExp(`((?:${unseen})+)`, "u");

const maxParts = 10_000; // a text with more of them has no colors

const codeOf = (c) => (c.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0");

/** exact returns a text with the code point in place of each character that is not seen, as in <U+202E>. */
export const exact = (text) => textOf(text).replace(one, (c) => "<U+" + codeOf(c) + ">");

/** escaped returns JSON whose characters are all seen: one that is not can only be in a string. */
export const escaped = (json) => json.replace(one, (c) => [...Array(c.length).keys()].map((i) => "\\u" + c.charCodeAt(i).toString(16).padStart(4, "0")).join(""));

/** Exact is such a text, with the code points marked. */
export function Exact({ text }) {
  const parts = textOf(text).split(several);
  if (parts.length > maxParts) return exact(text);
  return parts.map((part, i) => (i % 2 ? html`<mark>${exact(part)}</mark>` : part));
}

const marks = { "+": "add", "-": "del" };

/** executedOf returns what a call executes. */
export const executedOf = (call) => textOf(call.executed) || escaped(jsonOf(call.input));

export const linesOf = (text) => text.replace(/\n$/, "").split("\n");

/** Executed shows what a call executes: a difference by its lines, and another text as it is. Nothing is left out. */
export function Executed({ call }) {
  const text = executedOf(call);
  const lines = linesOf(text);
  const isChange = ["Edit", "Write"].includes(call.tool_name) && lines.length <= maxParts;
  const line = (text, i) => {
    const kind = i ? marks[text[0]] : undefined;
    return html`<span class=${kind}>${kind && html`<b class="hidden">${kind === "add" ? t("waits.added") : t("waits.removed")}</b>`}<${Exact} text=${text} />${"\n"}</span>`;
  };
  return html`<pre class="exact ${isChange ? "diff" : ""}" tabindex="0" role="group" aria-label=${t("waits.executed")}>${isChange ? lines.map(line) : html`<${Exact} text=${text} />`}</pre>`;
}
