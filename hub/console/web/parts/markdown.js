// Markdown as nodes of the document, block by block while it arrives. Every text becomes a text
// node: HTML in it is text.

/** el returns an element with attributes and children. Functions are listeners. */
export function el(name, attributes = {}, ...children) {
  const e = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") e.addEventListener(key, value);
    else if (value !== undefined && value !== false) e.setAttribute(key, value === true ? "" : value);
  }
  e.append(...children.filter((c) => c !== undefined && c !== null && c !== false));
  return e;
}

/** leadsHere reports whether an address is one of this hub, with any scheme. A text must not lead to what the user can do here, such as a login. */
const leadsHere = (url) => url.hostname.replace(/\.$/, "") === location.hostname && (!url.port || url.port === location.port);

/** safeLink returns the address of a link that a user may follow, or "". */
function safeLink(text) {
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

// Every repetition is bounded, or begins where no other one can: models write what they want, and a page must not stop.
const marks = /(`+)([^`]|[^`][^]{0,4000}?[^`])\1(?!`)|!?\[((?:[^\[\]\\]|\\.|\[[^\[\]]*\]){0,1000})\]\(\s*<?([^\s()<>]*(?:\([^\s()]*\)[^\s()<>]*)*)>?(?:\s+"[^"]*")?\s*\)|(\*\*|__)(?=\S)([^]{0,1000}?\S)\5|(~~)(?=\S)([^]{0,1000}?\S)~~|(\*|(?<!\w)_)(?=\S)([^]{0,1000}?\S)\9(?!\w)|(https?:\/\/[^\s<>()"'`]+[^\s<>()"'`.,;:!?])|\\([!-\/:-@[-`{-~])|((?<! ) {2,}|\\)\n/g;
const maxDepth = 8; // of marks in marks

/** inline returns the nodes of a text with marks. */
export function inline(text, depth = 0) {
  const nodes = [];
  let at = 0;
  if (depth > maxDepth || text.length > 20_000) return [document.createTextNode(text)];
  for (const m of text.matchAll(marks)) {
    if (m.index > at) nodes.push(document.createTextNode(text.slice(at, m.index)));
    at = m.index + m[0].length;
    if (m[1]) nodes.push(el("code", {}, m[2].replace(/\n/g, " ")));
    else if (m[3] !== undefined) nodes.push(link(m[4], m[0], m[3] ? inline(m[3], depth + 1) : [m[4]]));
    else if (m[5]) nodes.push(el("strong", {}, ...inline(m[6], depth + 1)));
    else if (m[7]) nodes.push(el("del", {}, ...inline(m[8], depth + 1)));
    else if (m[9]) nodes.push(el("em", {}, ...inline(m[10], depth + 1)));
    else if (m[11]) nodes.push(link(m[11], m[11]));
    else if (m[12]) nodes.push(document.createTextNode(m[12]));
    else nodes.push(el("br"));
  }
  if (at < text.length) nodes.push(document.createTextNode(text.slice(at)));
  return nodes;
}

const fence = /^ {0,3}(`{3,}|~{3,}(?!~))([^`]*)$/;
const item = /^( {0,3})([-*+]|\d{1,9}[.)])(\s+|$)/;
const starts = (line) => fence.test(line) || /^ {0,3}(#{1,6}(\s|$)|>|([-*_])\s*(\3\s*){2,}$)/.test(line) || item.test(line);
const row = (line) => line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/, maxParts).map((cell) => cell.trim().replace(/\\\|/g, "|"));
const isRule = (line) => line.includes("-") && line.includes("|") && /^[\s|:-]+$/.test(line);

/** codeBlock returns a block of code with a button that copies it. */
export function codeBlock(language, text, labels) {
  const code = el("code", {}, text);
  const button = el("button", { type: "button", class: "button quiet small", click: async () => {
    await navigator.clipboard.writeText(code.textContent);
    button.textContent = labels.copied;
    setTimeout(() => { button.textContent = labels.copy; }, 2000);
  } }, labels.copy);
  return { node: el("div", { class: "block" }, el("header", {}, el("span", {}, language || labels.code), button), el("pre", { tabindex: "0" }, code)), code };
}

const maxParts = 10_000; // of a text, a row or a table, because the arguments of a call are limited

/** blocks returns the elements of complete lines. */
function blocks(lines, labels, depth = 0) {
  const nodes = [];
  for (let i = 0; i < lines.length;) {
    const line = lines[i];
    const open = fence.exec(line);
    if (nodes.length === maxParts) {
      nodes.push(el("p", {}, lines.slice(i).join("\n")));
      break;
    }
    if (!line.trim()) i++;
    else if (open) {
      let end = i + 1;
      while (end < lines.length && !(lines[end].trim().startsWith(open[1]) && /^[`~]+$/.test(lines[end].trim()))) end++;
      nodes.push(codeBlock(open[2].trim().split(/\s/)[0], lines.slice(i + 1, end).join("\n"), labels).node);
      i = end + 1;
    } else if (/^ {0,3}#{1,6}(\s|$)/.test(line)) {
      const [level, ...rest] = line.trim().split(/\s+/);
      const text = rest.join(" ").replace(/(^|\s)#+$/, "");
      nodes.push(el("h" + Math.min(6, level.length + 2), {}, ...inline(text))); // the page has h1 and h2
      i++;
    } else if (/^ {0,3}([-*_])\s*(\1\s*){2,}$/.test(line)) {
      nodes.push(el("hr"));
      i++;
    } else if (/^ {0,3}>/.test(line) && depth < maxDepth) {
      const inner = [];
      while (i < lines.length && lines[i].trim() && (/^ {0,3}>/.test(lines[i]) || !starts(lines[i]))) inner.push(lines[i++].replace(/^ {0,3}> ?/, ""));
      nodes.push(el("blockquote", {}, ...blocks(inner, labels, depth + 1)));
    } else if (item.test(line) && depth < maxDepth) {
      const mark = item.exec(line)?.[2] || "";
      const ordered = /\d/.test(mark);
      const list = el(ordered ? "ol" : "ul", ordered ? { start: parseInt(mark, 10) } : {});
      while (i < lines.length) {
        const m = item.exec(lines[i]);
        if (!m || /\d/.test(m[2]) !== ordered) break;
        const indent = m[0].length;
        const inner = [lines[i].slice(indent)];
        for (i++; i < lines.length; i++) {
          const blank = !lines[i].trim();
          const deep = lines[i].startsWith(" ".repeat(Math.min(indent, m[1].length + 2))) && !blank;
          if (deep) inner.push(lines[i].slice(Math.min(indent, lines[i].search(/\S/))));
          else if (blank && i + 1 < lines.length && (/^\s{2,}\S/.test(lines[i + 1]) || item.test(lines[i + 1]))) inner.push("");
          else if (blank || starts(lines[i]) || !inner[inner.length - 1].trim()) break;
          else inner.push(lines[i]);
        }
        const nested = blocks(inner, labels, depth + 1);
        list.append(el("li", {}, ...(nested.length && nested[0].tagName === "P" ? [...nested[0].childNodes, ...nested.slice(1)] : nested)));
      }
      nodes.push(list);
    } else if (line.includes("|") && i + 1 < lines.length && isRule(lines[i + 1])) {
      const head = row(line);
      const body = [];
      for (i += 2; i < lines.length && lines[i].includes("|") && body.length < maxParts; i++) body.push(row(lines[i]));
      nodes.push(el("div", { class: "scroll-x", tabindex: "0" }, el("table", {}, el("thead", {}, el("tr", {}, ...head.map((c) => el("th", {}, ...inline(c))))),
        el("tbody", {}, ...body.map((r) => el("tr", {}, ...r.slice(0, head.length).map((c) => el("td", {}, ...inline(c)))))))));
    } else {
      const from = i++;
      while (i < lines.length && lines[i].trim() && !starts(lines[i]) && !(lines[i].includes("|") && i + 1 < lines.length && isRule(lines[i + 1]))) i++;
      nodes.push(el("p", {}, ...inline(lines.slice(from, i).join("\n").trim())));
    }
  }
  return nodes;
}

/** markdown returns the elements of a text. */
export const markdown = (text, labels) => blocks(text.split("\n"), labels);

const longBlock = 4000; // characters of an open block from which a part of it is closed

/** Stream appends text to a node. Closed blocks are not rendered again; the open one is, once a frame. */
export class Stream {
  /** @param {Element} node */
  constructor(node, labels) {
    this.node = node;
    this.labels = labels;
    this.rest = ""; // the source of the open block
    this.open = []; // its elements
    this.code = null; // of an open fence: its text node and its end
    this.frame = 0;
    this.pending = "";
  }

  append(text) {
    this.pending += text;
    this.frame ||= requestAnimationFrame(() => this.flush());
  }

  flush() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    const text = this.pending;
    this.pending = "";
    for (let at = 0; at < text.length; at += longBlock) this.add(text.slice(at, at + longBlock)); // close calls itself for each fence
    if (text && !this.code) this.draw();
  }

  add(text) {
    if (this.code) text = this.inFence(text);
    if (!text) return;
    this.rest += text;
    this.close();
  }

  /** inFence appends to the open fence, and returns the text after its end. */
  inFence(text) {
    const code = this.code;
    if (!code) return text;
    code.line += text;
    for (let end = code.line.indexOf("\n"); end >= 0; end = code.line.indexOf("\n")) {
      const line = code.line.slice(0, end);
      code.line = code.line.slice(end + 1);
      if (line.trim().startsWith(code.mark) && /^[`~]+$/.test(line.trim())) {
        const after = code.line;
        this.code = null;
        return after;
      }
      code.text.appendData((code.empty ? "" : "\n") + line);
      code.empty = false;
    }
    return "";
  }

  /** close renders the blocks that no further text changes. */
  close() {
    const lines = this.rest.split("\n");
    let closed = 0;
    let list = false;
    for (let i = 0; i < lines.length - 1; i++) { // the last line is not complete
      const m = fence.exec(lines[i]);
      if (m && !list) {
        this.commit(lines.slice(closed, i));
        const { node, code } = codeBlock(m[2].trim().split(/\s/)[0], "", this.labels);
        this.node.append(node);
        const text = document.createTextNode("");
        code.append(text);
        this.code = { mark: m[1], text, line: "", empty: true };
        this.rest = this.inFence(lines.slice(i + 1).join("\n"));
        if (!this.code) this.close();
        return;
      }
      if (item.test(lines[i])) list = true;
      else if (!lines[i].trim() && (!list || (lines[i + 1] && !/^\s/.test(lines[i + 1]) && !item.test(lines[i + 1])))) {
        list = false;
        this.commit(lines.slice(closed, i + 1));
        closed = i + 1;
      } else if (list && i > closed && !lines[i].trim() && lines.slice(closed, i).join("\n").length > longBlock && item.test(lines[i + 1])) {
        this.commit(lines.slice(closed, i + 1));
        closed = i + 1;
      }
      if (list && i > closed && /^([-*+]|\d{1,9}[.)])\s/.test(lines[i]) && lines.slice(closed, i).join("\n").length > longBlock) {
        this.commit(lines.slice(closed, i)); // a long list continues as another one
        closed = i;
      }
    }
    this.rest = lines.slice(closed).join("\n");
    if (this.rest.length > 5 * longBlock) { // a paragraph or an item without an end
      const end = this.rest.lastIndexOf(list ? "\n" : " ");
      const cut = end < 0 ? this.rest.length : end; // a text without a space
      this.commit(this.rest.slice(0, cut).split("\n"));
      this.rest = this.rest.slice(cut + 1);
    }
  }

  commit(lines) {
    for (const node of this.open) node.remove();
    this.open = [];
    this.node.append(...blocks(lines, this.labels));
  }

  draw() {
    for (const node of this.open) node.remove();
    this.open = blocks(this.rest.split("\n"), this.labels);
    this.node.append(...this.open);
  }

  /** end renders what is left. */
  end() {
    this.flush();
    if (this.code) {
      if (this.code.line && !/^[`~]+$/.test(this.code.line.trim())) this.code.text.appendData((this.code.empty ? "" : "\n") + this.code.line);
      this.code = null;
    } else {
      this.commit(this.rest.split("\n"));
    }
    this.rest = "";
  }
}
