// A paragraph of Markdown as nodes of the document, in one pass over its characters. Every text becomes a text node: HTML
// in it is text.
import { textOf } from "../lib/preact.js";
import { visible } from "../app/text.js";

let read = 0;
let made = 0;

/** readCharacters counts n characters that were looked at, and returns how many there were since the page was loaded. */
export const readCharacters = (n = 0) => { read += n; return read; };

/** madeElements returns how many elements were created since the page was loaded. */
export const madeElements = () => made;

/** el returns an element with attributes and children. Functions are listeners; what is no node is text. */
export function el(name, attributes = {}, ...children) {
  made++;
  const e = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") e.addEventListener(key, value);
    else if (value !== undefined && value !== false) e.setAttribute(key, value === true ? "" : textOf(value));
  }
  for (const c of children) if (c !== undefined && c !== null && c !== false) e.append(c instanceof Node ? c : textOf(c));
  return e;
}

/** leadsHere reports whether an address is one of this hub, with any scheme. A text must not lead to what the user can do here, such as a login. */
const leadsHere = (url) => url.hostname.replace(/\.$/, "") === location.hostname && (!url.port || url.port === location.port);

/** safeLink returns the address of a link that a user may follow, or "". */
export function safeLink(text) {
  try {
    const url = new URL(text);
    return ["http:", "https:", "mailto:"].includes(url.protocol) && !leadsHere(url) ? url.href : "";
  } catch {
    return "";
  }
}

/** link returns a link with children, or the text if no user may follow the address. */
function link(address, text, children = /** @type {(string|Node)[]} */ ([text])) {
  const href = safeLink(address);
  return href ? el("a", { href, target: "_blank", rel: "noopener noreferrer nofollow" }, ...children) : document.createTextNode(text);
}

const isSpace = (c) => c === undefined || c === " " || c === "\n" || c === "\t" || c === "\r" || c === "\u3000" || c === "\u00a0";
const isWord = (c) => c !== undefined && /\w/.test(c);
const isEscapable = (c) => c !== undefined && /[!-/:-@[-`{-~]/.test(c);

/** runOf returns the end of the equal characters that begin at a place. */
function runOf(text, from) {
  let end = from + 1;
  while (text[end] === text[from]) end++;
  return end;
}

/** spansOf returns the ends of the spans of code by their begin: the next run of backticks with the same length. */
function spansOf(text) {
  const runs = [];
  for (let i = text.indexOf("`"); i >= 0; i = text.indexOf("`", i)) {
    const end = runOf(text, i);
    runs.push({ from: i, end });
    i = end;
  }
  readCharacters(text.length);
  const next = new Map();
  const spans = new Map();
  for (const run of runs.reverse()) {
    const size = run.end - run.from;
    const close = next.get(size);
    if (close) spans.set(run.from, { from: run.end, to: close.from, end: close.end });
    next.set(size, run);
  }
  return spans;
}

/** linksOf returns the links by the begin of their text: the end of the text, that of the link, and its address. */
function linksOf(text, spans) {
  const brackets = [];
  const parentheses = [];
  const pairs = []; // of brackets before a parenthesis
  const closed = new Map(); // parentheses
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    const span = c === "`" && spans.get(i);
    if (span) i = span.end - 1;
    else if (c === "\\" && isEscapable(text[i + 1])) i++;
    else if (c === "[") brackets.push(i);
    else if (c === "(") parentheses.push(i);
    else if (c === ")" && parentheses.length) closed.set(parentheses.pop(), i);
    else if (c === "]" && brackets.length) {
      const from = brackets.pop();
      if (text[i + 1] === "(") pairs.push({ from, to: i });
    }
  }
  const space = new Int32Array(text.length + 1); // the next space at or after a place
  const other = new Int32Array(text.length + 1); // the next character that is none
  space[text.length] = other[text.length] = text.length;
  for (let i = text.length - 1; i >= 0; i--) {
    const blank = isSpace(text[i]);
    space[i] = blank ? i : space[i + 1];
    other[i] = blank ? other[i + 1] : i;
  }
  readCharacters(2 * text.length);
  const links = new Map();
  for (const { from, to } of pairs) {
    const close = closed.get(to + 1);
    if (close === undefined) continue;
    const begin = other[to + 2];
    const end = Math.min(space[begin], close);
    const title = other[end];
    if (title < close && text[title] !== '"') continue; // an address has no spaces
    links.set(from, { to, close, begin, end });
  }
  return links;
}

const addressOf = (text, { begin, end }) => text.slice(begin, end).replace(/^<|>$/g, "");

const maxOpen = 16; // marks that wait for their end. It bounds the depth of the elements
const none = new Map();

/** Paragraph takes the characters of a text in their order. */
class Paragraph {
  constructor(text) {
    this.text = text;
    this.spans = text.includes("`") ? spansOf(text) : none;
    this.links = text.includes("](") ? linksOf(text, this.spans) : none;
    /** @type {(string|Node)[]} */
    this.nodes = [];
    this.from = 0; // of the text that is not in nodes
    /** @type {{mark: string, left: number, at: number}[]} */
    this.open = []; // marks, and the places of their texts in nodes
    /** @type {any} */
    this.link = null; // that is open
  }

  /** take adds the text before a place, and continues after a mark. */
  take(to, after) {
    if (to > this.from) this.nodes.push(this.text.slice(this.from, to));
    this.from = after;
    return after;
  }

  all() {
    for (let i = 0; i < this.text.length;) {
      const next = this.link && i === this.link.to ? this.closeLink() : this.next(i);
      readCharacters(next - i);
      i = next;
    }
    this.take(this.text.length, this.text.length);
    return this.nodes;
  }

  /** next takes what begins at a place, and returns where it ends. */
  next(i) {
    const { text } = this;
    switch (text[i]) {
      case "`":
        return this.code(i);
      case "\\":
        if (text[i + 1] === "\n") return this.lineBreak(i, i + 2);
        return isEscapable(text[i + 1]) ? this.take(i, i + 1) + 1 : i + 1;
      case "\n":
        return text[i - 1] === " " && text[i - 2] === " " ? this.lineBreak(i, i + 1) : i + 1;
      case "!":
        return this.links.has(i + 1) ? this.openLink(i, i + 1) : i + 1;
      case "[":
        return this.openLink(i, i);
      case "h":
        return /^https?:\/\//.test(text.slice(i, i + 8)) ? this.address(i) : i + 1;
      case "*": case "_": case "~":
        return this.mark(i);
      default:
        return i + 1;
    }
  }

  code(i) {
    const span = this.spans.get(i);
    if (!span) return i + 1;
    this.take(i, span.end);
    const code = visible(this.text.slice(span.from, span.to)).replaceAll("\n", " ");
    this.nodes.push(el("code", {}, code.startsWith(" ") && code.endsWith(" ") && code.trim() ? code.slice(1, -1) : code));
    return span.end;
  }

  lineBreak(i, after) {
    let end = i;
    while (this.text[end - 1] === " ") end--;
    readCharacters(i - end);
    this.take(end, after);
    this.nodes.push(el("br"));
    return after;
  }

  openLink(i, bracket) {
    const found = !this.link && this.links.get(bracket);
    if (!found) return i + 1;
    this.take(i, bracket + 1);
    this.link = { ...found, begins: i, at: this.nodes.length, open: this.open, address: addressOf(this.text, found) };
    this.open = []; // a mark in a link ends in it
    return bracket + 1;
  }

  closeLink() {
    const { to, close, begins, at, open, address } = this.link;
    this.take(to, close + 1);
    const children = this.nodes.splice(at);
    readCharacters(children.length);
    this.nodes.push(link(address, this.text.slice(begins, close + 1), children.length ? children : [address]));
    this.link = null;
    this.open = open;
    return close + 1;
  }

  /** address takes an address that is no link in Markdown. */
  address(i) {
    const { text } = this;
    let end = i + 7;
    while (end < text.length && !isSpace(text[end]) && !"<>()\"'`".includes(text[end])) end++;
    while (".,;:!?".includes(text[end - 1])) end--;
    if (this.link || end < i + 9) return i + 7;
    this.take(i, end);
    this.nodes.push(link(text.slice(i, end), text.slice(i, end)));
    return end;
  }

  /** mark takes one to three equal characters, which end marks that are open, or open one. */
  mark(i) {
    const { text } = this;
    const c = text[i];
    const end = runOf(text, i);
    const opens = !isSpace(text[end]) && !(c === "_" && isWord(text[i - 1]));
    const closes = !isSpace(text[i - 1]) && !((c === "_" || (c === "*" && end === i + 1)) && isWord(text[end]));
    if (end - i > 3 || (c === "~" && end - i !== 2) || (!opens && !closes)) return end;
    this.take(i, end);
    let left = end - i;
    while (closes && left > 0) {
      const size = left;
      const at = this.open.findLastIndex((o) => o.mark === c && (o.left === size || o.left === 3 || size === 3));
      if (at < 0) break;
      const opened = this.open[at];
      const used = Math.min(size, opened.left, 2);
      const inner = this.nodes.splice(opened.at + 1);
      readCharacters(inner.length); // they move
      this.open.length = at + 1;
      opened.left -= used;
      this.nodes[opened.at] = c.repeat(opened.left);
      if (!opened.left) this.open.pop();
      this.nodes.push(el(c === "~" ? "del" : used === 2 ? "strong" : "em", {}, ...inner));
      left -= used;
    }
    if (left === 0) return end;
    if (opens) this.open.push({ mark: c, left, at: this.nodes.length });
    if (this.open.length > maxOpen) this.open.shift();
    this.nodes.push(c.repeat(left));
    return end;
  }
}

/** inline returns the nodes of a text with marks. */
export const inline = (text) => new Paragraph(text).all();
