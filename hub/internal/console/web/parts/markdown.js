// Markdown as nodes of the document, line by line while it arrives. Each line is looked at once.
import { el, inline, madeElements, readCharacters } from "./inline.js";
import { visible } from "../app/text.js";
import { cellsOf, fence, heading, indentOf, isBreak, isRule, itemOf, quoteOf, runBefore, startsBlock } from "./lines.js";

const maxLine = 20_000; // characters of a paragraph. A longer line is several ones
const maxDepth = 16; // of quotes, lists and items
const slice = 8; // milliseconds until the page draws again

const maxElements = 15_000; // of a message
const maxTime = 400; // milliseconds for a message
const maxPlain = 8 << 20; // characters of a message that are not Markdown

/** Budget is what the texts of a message take together. After it, they are plain. */
export class Budget {
  constructor() {
    this.spent = 0; // milliseconds
    this.elements = 0;
    this.plain = 0; // characters
  }

  /** cut returns a text that is not Markdown, or the part of it for which there is room. */
  cut(text) {
    const room = maxPlain - this.plain;
    this.plain += text.length;
    if (text.length <= room) return text;
    return room > 0 ? text.slice(0, room) + "\n…" : "";
  }

  get isOver() { return this.spent > maxTime || this.elements > maxElements; }
}

/** inSlices runs the steps of a task, and lets the page draw in between. @param {Iterable<any>} task */
export async function inSlices(task) {
  let until = performance.now() + slice;
  for (const _ of task) {
    if (performance.now() < until) continue;
    await new Promise((done) => setTimeout(done));
    until = performance.now() + slice;
  }
}

const maxNode = 16_000; // characters of a text node, because what is appended to one copies it

/** Tail appends text to an element, once for many parts. Browsers skip the lines of a long text that are not seen. */
export class Tail {
  /** @param {Element} element */
  constructor(element) {
    this.host = element;
    this.element = element;
    /** @type {string[]} */
    this.parts = [];
    this.size = 0; // of parts, in characters
    this.node = document.createTextNode("");
    element.append(this.node);
  }

  add(text) {
    this.parts.push(text);
    this.size += text.length;
    if (this.size > maxNode) this.flush();
  }

  flush() {
    let text = this.parts.join("");
    this.parts = [];
    this.size = 0;
    if (this.node.length + text.length <= maxNode) {
      this.node.appendData(text);
      return;
    }
    if (text.startsWith("\n")) {
      this.node.appendData("\n");
      text = text.slice(1);
      this.host = el("span", { class: "lines-part" });
      this.element.append(this.host);
    }
    this.node = document.createTextNode(text);
    this.host.append(this.node);
  }
}

/** codeBlock returns a block of code with a button that copies it. */
function codeBlock(language, labels) {
  const code = el("code");
  const button = el("button", { type: "button", class: "button quiet small", click: async () => {
    await navigator.clipboard.writeText(code.textContent || "");
    button.textContent = labels.copied;
    setTimeout(() => { button.textContent = labels.copy; }, 2000);
  } }, labels.copy);
  const node = el("div", { class: "block" }, el("header", {}, el("span", {}, language || labels.code), button), el("pre", { tabindex: "0" }, code));
  return { node, code };
}

/** @typedef {{kind: "root"|"quote"|"list"|"item", node: Element, ordered?: boolean, indent?: number, least?: number}} Container */
/** @typedef {{kind: "text", host: Element, text: string}|{kind: "code", mark: string, tail: Tail, empty: boolean}|{kind: "table", body: Element, width: number}} Leaf */

/** Markdown appends a text to a node. What is complete is rendered once; the open line and its paragraph are, once a frame. */
export class Markdown {
  /** @param {Element} node */
  constructor(node, labels, budget = new Budget()) {
    this.node = node;
    this.labels = labels;
    this.budget = budget;
    this.rest = ""; // of the text
    this.at = 0; // in rest: what is before has been rendered
    this.within = false; // a line of which a part has been rendered
    /** @type {Container[]} */
    this.stack = [{ kind: "root", node }];
    /** @type {Leaf|null} */
    this.leaf = null;
    /** @type {Tail|null} */
    this.plain = null; // the text after the budget
    /** @type {null|{stack: Container[], leaf: Leaf|null, nodes: {remove: () => void}[]}} */
    this.before = null; // the state before the open line was drawn
    this.frame = 0;
    this.ended = false;
  }

  append(text) {
    this.rest = this.rest.slice(this.at) + text;
    this.at = 0;
    this.frame ||= requestAnimationFrame(() => this.draw());
  }

  /** end renders what is left, now or after the page has been drawn. */
  end() {
    this.ended = true;
    cancelAnimationFrame(this.frame);
    this.draw();
  }

  /** all returns the steps that render a whole text. */
  * all(text) {
    this.rest = text;
    this.ended = true;
    while (this.next()) yield;
    this.close();
    this.flush();
  }

  /** draw renders for a slice of time, and continues after the page has been drawn. */
  draw() {
    this.frame = 0;
    this.undo();
    const until = performance.now() + slice;
    let more = this.next();
    while (more && performance.now() < until) more = this.next();
    if (more) {
      if (this.ended) setTimeout(() => this.draw());
      else this.frame = requestAnimationFrame(() => this.draw());
    } else if (this.ended) this.close();
    this.flush();
    if (!more && !this.ended) this.drawOpen();
  }

  flush() {
    if (this.leaf?.kind === "code") this.leaf.tail.flush();
    if (this.plain) this.plain.flush();
  }

  /** drawOpen renders the open line as if it were complete, until undo. */
  drawOpen() {
    if (this.plain || this.leaf?.kind === "code") return;
    this.before = { stack: [...this.stack], leaf: this.leaf && { ...this.leaf }, nodes: [] };
    const line = this.rest.slice(this.at);
    if (line) this.line(line, this.within);
    this.drawText();
  }

  undo() {
    if (!this.before) return;
    for (const node of this.before.nodes) node.remove();
    this.stack = this.before.stack;
    this.leaf = this.before.leaf;
    this.before = null;
  }

  /** next renders a line, or a part of a long one. It reports whether there was one. */
  next() {
    const window = this.rest.slice(this.at, this.at + maxLine);
    const end = window.indexOf("\n");
    if (!window || (end < 0 && window.length < maxLine && !this.ended)) return false;
    const began = performance.now();
    const made = madeElements();
    const line = end < 0 ? window.slice(0, this.cut(window)) : window.slice(0, end);
    const within = this.within;
    this.within = end < 0;
    this.at += line.length + (end < 0 ? 0 : 1);
    if (this.plain || (this.budget.isOver && this.leaf?.kind !== "code")) this.addPlain(line, within); // lines of code need no elements
    else this.line(line, within);
    this.budget.elements += madeElements() - made;
    this.budget.spent += performance.now() - began;
    return true;
  }

  /** cut returns where a long line is cut: after a word, and never in a character. */
  cut(window) {
    if (window.length < maxLine) return window.length;
    const space = window.lastIndexOf(" ");
    if (space > maxLine / 2) return space;
    const code = window.charCodeAt(maxLine - 1);
    return code >= 0xd800 && code < 0xdc00 ? maxLine - 1 : maxLine;
  }

  /** addPlain adds a line after the budget. */
  addPlain(line, within) {
    this.close();
    if (this.plain) {
      this.plain.add((within ? "" : "\n") + line);
      return;
    }
    const node = el("div", { class: "plain" });
    this.plain = new Tail(node);
    this.plain.add(line);
    this.node.append(node);
  }

  /** put appends a node, until undo if the line is open. */
  put(parent, node) {
    parent.append(node);
    if (this.before) this.before.nodes.push(node);
  }

  get top() { return this.stack[this.stack.length - 1]; }

  /** drawText renders the open paragraph. */
  drawText() {
    if (this.leaf?.kind === "text") this.leaf.host.replaceChildren(...inline(this.leaf.text.trim()));
  }

  /** close ends the open block. */
  close() {
    this.drawText();
    if (this.leaf?.kind === "code") this.leaf.tail.flush();
    this.leaf = null;
  }

  /** leave closes the containers from a depth. */
  leave(depth) {
    if (depth === this.stack.length) return;
    this.close();
    this.stack.length = depth;
  }

  /** enter opens a container. */
  enter(kind, node, rest = {}) {
    this.close();
    this.put(this.top.node, node);
    this.stack.push({ kind, node, ...rest });
  }

  /** line takes a line. within means that it continues one that was too long. */
  line(line, within) {
    readCharacters(line.length);
    if (within) {
      this.continue(line);
      return;
    }
    const asItIs = this.leaf?.kind === "code" && this.stack.length === 1;
    const { depth, text } = this.match(asItIs ? line : line.replace(/^[ \t]+/, (spaces) => spaces.replaceAll("\t", "    ")));
    const matched = depth === this.stack.length;
    if (matched && this.leaf?.kind === "code") {
      this.code(text);
      return;
    }
    if (!text.trim()) {
      this.leave(depth);
      this.close();
      return;
    }
    const inner = this.open(text, depth);
    const opened = inner !== text;
    if (!opened && !matched) {
      if (this.leaf?.kind === "text" && !startsBlock(text)) {
        this.text(text);
        return;
      }
      this.leave(this.stack[depth].kind === "item" ? depth - 1 : depth);
    }
    this.block(inner);
  }

  /** match returns how many of the open containers a line continues, and its text in them. */
  match(line) {
    let text = line;
    let depth = 1;
    for (; depth < this.stack.length; depth++) {
      const { kind, indent = 0, least = 0 } = this.stack[depth];
      const quoted = kind === "quote" ? quoteOf(text) : 0;
      if (kind === "quote" && !quoted) break;
      if (kind === "item" && text.trim() && indentOf(text) < least) break;
      if (kind === "quote") text = text.slice(quoted);
      if (kind === "item") text = text.slice(Math.min(indent, indentOf(text)));
      if (kind !== "list") readCharacters(text.length);
    }
    return { depth, text };
  }

  /** open opens the containers that begin in a line after those of a depth, and returns the text in them. */
  open(line, depth) {
    let text = line;
    for (let from = depth; !isBreak(text) && from <= maxDepth; from = this.stack.length) {
      readCharacters(text.length);
      const quoted = quoteOf(text);
      const item = quoted ? null : itemOf(text);
      if (!quoted && !item) break;
      const left = this.stack[from]; // an item of a list that can continue
      const continues = item && left?.kind === "item" && this.stack[from - 1].ordered === item.ordered;
      this.leave(left?.kind === "item" && !continues ? from - 1 : from);
      if (quoted) this.enter("quote", el("blockquote"));
      else if (item) {
        if (!continues) this.enter("list", el(item.ordered ? "ol" : "ul", item.ordered ? { start: item.start } : {}), { ordered: item.ordered });
        this.enter("item", el("li"), { indent: item.indent, least: item.least });
      }
      text = text.slice(quoted || item?.indent);
    }
    return text;
  }

  /** block takes the text of a line in the innermost container. */
  block(text) {
    const opened = fence.exec(text);
    const level = heading.exec(text);
    const leaf = this.leaf;
    if (!text.trim()) return;
    if (opened) {
      this.close();
      const { node, code } = codeBlock(opened[2].trim().split(/\s/)[0], this.labels);
      this.put(this.top.node, node);
      this.leaf = { kind: "code", mark: opened[1], tail: new Tail(code), empty: true };
    } else if (level) {
      this.close();
      const title = text.slice(level[0].length).trim();
      const end = title.length - runBefore(title, "#");
      this.put(this.top.node, el("h" + Math.min(6, level[1].length + 2), {}, ...inline(end && title[end - 1] !== " " ? title : title.slice(0, end).trim()))); // the page has h1 and h2
    } else if (isBreak(text)) {
      this.close();
      this.put(this.top.node, el("hr"));
    } else if (leaf?.kind === "table" && text.includes("|")) this.put(leaf.body, rowOf("td", cellsOf(text).slice(0, leaf.width)));
    else if (leaf?.kind === "text" && isRule(text) && !this.before && this.table(leaf)) return;
    else this.text(text);
  }

  /** table makes the last line of a paragraph the head of a table. */
  table(leaf) {
    const from = leaf.text.lastIndexOf("\n") + 1;
    const head = leaf.text.slice(from);
    if (!head.includes("|")) return false;
    leaf.text = leaf.text.slice(0, from);
    this.close();
    if (!leaf.text.trim() && leaf.host !== this.top.node) leaf.host.remove();
    const cells = cellsOf(head);
    const body = el("tbody");
    this.put(this.top.node, el("div", { class: "scroll-x", tabindex: "0" }, el("table", {}, el("thead", {}, rowOf("th", cells)), body)));
    this.leaf = { kind: "table", body, width: cells.length };
    return true;
  }

  /** text adds a line to the open paragraph, or begins one. That of an item without others is its own. */
  text(line) {
    const leaf = this.leaf;
    if (leaf?.kind === "text" && leaf.text.length + line.length < maxLine) {
      leaf.text += "\n" + line.trimStart();
      return;
    }
    this.close();
    const { kind, node } = this.top;
    let host = node;
    if (kind !== "item" || node.firstChild) {
      host = el("p");
      this.put(node, host);
    } else if (this.before) this.before.nodes.push({ remove: () => node.replaceChildren() });
    this.leaf = { kind: "text", host, text: line };
  }

  /** code adds a line to the open block of code, or ends it. */
  code(text) {
    const leaf = this.leaf;
    if (leaf?.kind !== "code") return;
    const mark = text.trim();
    if (mark.startsWith(leaf.mark) && runBefore(mark, leaf.mark[0]) === mark.length) {
      this.close();
      return;
    }
    leaf.tail.add((leaf.empty ? "" : "\n") + visible(text));
    leaf.empty = false;
  }

  /** continue adds a part of a line that is too long. */
  continue(text) {
    const leaf = this.leaf;
    if (leaf?.kind === "code") leaf.tail.add(visible(text));
    else if (leaf?.kind === "text" && leaf.text.length + text.length < maxLine) leaf.text += text;
    else this.text(text);
  }
}

const rowOf = (name, cells) => el("tr", {}, ...cells.map((cell) => el(name, {}, ...inline(cell))));
