// The messages of a chat, as nodes that grow while an answer arrives.
import { html, render, textOf } from "../lib/preact.js";
import { to } from "../app/router.js";
import { compact, dateTime, duration, has, jsonOf, money, relative, t, visible } from "../app/text.js";
import { attachmentOf } from "./attach.js";
import { describe } from "./basic.js";
import { el } from "./inline.js";
import { Budget, inSlices, Markdown, Tail } from "./markdown.js";
import { OwnWaiting } from "./waiting.js";

const labels = () => ({ copy: t("action.copy"), copied: t("action.copied"), code: t("chat.code") });

/** oneLine shortens a value for the line of a tool call. */
function oneLine(input) {
  if (!input || typeof input !== "object") return "";
  const value = input.command || input.file_path || input.path || input.pattern || input.url || input.description || Object.values(input).find((v) => typeof v === "string") || "";
  return visible(textOf(value).split("\n")[0].slice(0, 120));
}

/** pretty returns a value as text. */
const pretty = (value) => (typeof value === "object" ? jsonOf(value) : textOf(value));

/** listOf returns the elements of a list that can be absent. */
function listOf(value) {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value)) throw new TypeError("not a list");
  return value;
}

/** guarded runs the steps of a task. If one fails, a short text is in place of what it would have added, unless the answer is full. @returns {Generator<any>} */
function* guarded(task, place, isFull = () => false) {
  try {
    yield* task;
  } catch (fault) {
    console.error(fault);
    if (!isFull()) place.append(el("p", { class: "notice bad" }, t("part.unshown")));
  }
}

/** Fold is one line that opens: thinking or a tool call. */
class Fold {
  constructor(name, isTool, budget) {
    this.budget = budget;
    this.what = el("span", { class: "what" });
    this.took = el("span", { class: "took" });
    this.inside = el("div", { class: "inside" });
    this.node = el("details", { class: "fold" }, el("summary", {}, isTool ? el("code", {}, visible(textOf(name))) : name, this.what, this.took), this.inside);
    /** @type {Tail|null} */
    this.tail = null;
    this.isDenied = false;
  }

  part(title, text) {
    this.inside.append(el("div", {}, title), el("pre", { tabindex: "0" }, visible(this.budget.cut(text))));
  }

  append(text) {
    if (!this.tail) {
      const pre = el("pre", { tabindex: "0" });
      this.tail = new Tail(pre);
      this.inside.append(pre);
    }
    this.tail.add(this.budget.cut(textOf(text)));
    this.tail.flush();
  }

  input(value) {
    this.what.textContent = oneLine(value);
    this.part(t("chat.input"), pretty(value));
  }

  result(block) {
    if (this.isDenied) return; // the result repeats the reason
    this.took.textContent = (block.is_error ? t("state.failed") + " " : "") + duration(block.duration_ms || 0);
    if (block.is_error) this.node.classList.add("bad");
    this.part(block.is_error ? t("chat.fault") : t("chat.output"), textOf(block.output) + (block.truncated ? "\n…" : ""));
  }

  denied(reason) {
    this.isDenied = true;
    this.node.classList.add("bad");
    this.took.textContent = t("chat.denied");
    this.part(t("chat.denied"), textOf(reason));
  }
}

const maxBlocks = 5000; // of a message

/** Answer is the answer of an agent. It takes the blocks of a stored one, or the events of a run. */
class Answer {
  constructor(actions) {
    this.actions = actions;
    /** @type {any} The message, or null. */
    this.question = null;
    this.id = ""; // of the message
    this.last = ""; // the id of the last event
    /** The name of who answers what waits, from this page. */
    this.by = "";
    /** @type {Element|null} */
    this.card = null;
    /** @type {any} */
    this.saved = null;
    this.body = el("div", {});
    this.foot = el("div", { class: "foot" });
    this.node = el("article", { class: "message", "aria-label": t("chat.answer") }, this.body, this.foot);
    this.model = "";
    /** @type {Map<string, Fold>} */
    this.folds = new Map();
    /** @type {Markdown|null} */
    this.stream = null;
    /** @type {Fold|null} */
    this.thinking = null;
    /** @type {Element|null} */
    this.lastText = null;
    this.text = "";
    /** The types of the blocks that have arrived in parts since the last complete message. */
    this.parts = new Set();
    this.budget = new Budget();
    this.blocks = 0;
    /** @type {Element|null} */
    this.conclusion = null;
    /** @type {any} */
    this.result = {};
  }

  /** reset removes all that there is of the answer. */
  reset() {
    this.endText();
    this.settled();
    this.body.replaceChildren();
    this.folds.clear();
    this.parts.clear();
    this.lastText = null;
    this.text = "";
    this.budget = new Budget();
    this.blocks = 0;
    this.conclusion = null;
  }

  place(parent) {
    const fold = parent && this.folds.get(parent);
    return fold ? fold.inside : this.body;
  }

  endText() {
    if (this.stream) this.stream.end();
    this.stream = null;
    this.thinking = null;
  }

  /** addText begins a paragraph of the text that is copied. */
  addText(text) { this.text += (this.text ? "\n\n" : "") + text; }

  notice(text, bad) {
    this.endText();
    const node = el("p", { class: "notice" + (bad ? " bad" : "") }, text);
    this.body.append(node);
    return node;
  }

  /** conclude shows how the run ended, which is its last report. */
  conclude(text, bad) {
    this.conclusion?.remove();
    this.conclusion = this.notice(text, bad);
  }

  /** wait shows what the answer waits for. Only its owner has actions. */
  wait(pending) {
    this.settled();
    for (const p of pending) {
      const fold = this.folds.get(p.tool_use_id);
      if (fold) fold.took.textContent = t("state.waiting");
    }
    if (!this.actions?.settle) {
      this.notice(t("waits.elsewhere")).append(" ", el("a", { href: to("approvals") }, t("page.approvals")));
      return;
    }
    const card = el("div", {});
    this.card = card;
    this.body.append(card);
    render(html`<${OwnWaiting} pending=${pending} send=${(answers) => this.actions.settle(this, answers)} />`, card);
    this.actions.onWait(this);
  }

  /** settled removes the card of what the answer waited for. */
  settled() {
    if (!this.card) return;
    render(null, this.card);
    this.card.remove();
    this.card = null;
  }

  /** answered says in a line who has decided what. */
  answered({ decision, tool_name, user_name, answered_at, reason }) {
    if (!has("waits.was." + decision)) return;
    const line = this.notice(t("waits.was." + decision, { tool: visible(textOf(tool_name)), user: textOf(user_name) || this.by || t("waits.someone") }));
    if (reason) line.append(" ", el("q", {}, visible(textOf(reason))));
    if (answered_at) line.append(" ", el("time", { datetime: answered_at, title: dateTime(answered_at) }, relative(answered_at)));
  }

  /** remedy shows who can do what about a failure. @param {any} error */
  remedy(error) { if (error?.remedy) this.notice(error.remedy, true); }

  /** isFull counts a block, and reports whether it is one of too many. A notice is in place of the first of them. */
  isFull() {
    if (++this.blocks === maxBlocks) this.notice(t("part.unshown"), true);
    return this.blocks >= maxBlocks;
  }

  fold(id, name, parent) {
    const known = this.folds.get(id);
    if (known) return known;
    if (!parent) this.endText();
    const fold = new Fold(name, true, this.budget);
    this.folds.set(id, fold);
    this.place(parent).append(fold.node);
    return fold;
  }

  /** block returns the steps that add a block of a stored message. */
  block(b, parent) {
    return this.isFull() ? [] : guarded(this.show(b, parent), this.place(parent));
  }

  /** blocksOf returns the steps that add the blocks of a stored message. The last one can be its visible label. */
  * blocksOf(blocks) {
    for (const block of blocks) yield* this.block(block, null);
    if (this.blocks >= maxBlocks) yield* guarded(this.show(blocks[blocks.length - 1], null), this.body);
  }

  /** @returns {Generator<any>} */
  * show(b, parent) {
    yield;
    switch (b.type) {
      case "text": {
        const node = el("div", { class: "md" });
        this.place(parent).append(node);
        if (!parent) {
          this.addText(textOf(b.text));
          this.lastText = node;
        }
        yield* new Markdown(node, labels(), this.budget).all(textOf(b.text));
        break;
      }
      case "thinking": {
        const fold = new Fold(t("chat.thinking"), false, this.budget);
        fold.append(b.thinking || "");
        this.place(parent).append(fold.node);
        break;
      }
      case "tool_use":
        this.fold(b.id, b.name, parent).input(b.input);
        break;
      case "tool_result":
        this.fold(b.tool_use_id, b.tool_name || "", b.parent_tool_use_id || parent).result(b);
        break;
      case "structured":
        yield* this.structured(b.value);
        break;
      case "subagent_message":
        for (const inner of listOf(b.content)) yield* this.block(inner, b.parent_tool_use_id);
        break;
      case "permission_denied":
        this.fold(b.tool_use_id, b.tool_name || "", null).denied(b.reason);
        break;
      case "permission_required":
        this.fold(b.tool_use_id, b.tool_name || "", null).took.textContent = t("state.waiting");
        break;
      case "answered":
        this.answered(b);
        break;
      case "mcp_status":
        if (b.status === "failed") this.notice(t("chat.mcp_failed", { name: b.name, error: b.error || "" }), true);
        break;
      case "warning":
        this.notice(b.message || "");
        break;
      case "compact_boundary":
        this.notice(t("chat.compacted"));
        break;
      default:
        if (typeof b.type !== "string") throw new TypeError("a block without a type");
    }
  }

  /** structured shows a value in place of the text that it was read from. @returns {Generator<any>} */
  * structured(value) {
    this.endText();
    const node = this.lastText || el("div", {});
    node.className = "md";
    node.replaceChildren();
    this.body.append(node);
    yield* new Markdown(node, labels(), this.budget).all("```json\n" + pretty(value) + "\n```");
  }

  /** event takes an event by its name. The hub sends only its own events with the name hub, and a runtime sends what it likes in others. */
  event(name, e) { return inSlices(guarded(name === "hub" ? this.takeOfHub(e) : this.take(name, e), this.body, () => this.isFull())); }

  /** @returns {Generator<any>} */
  * takeOfHub(e) {
    yield;
    switch (e.type) {
      case "hub":
        if (e.aigcNotice) this.notice(e.aigcNotice);
        break;
      case "hub.gap":
        this.reset();
        break;
      case "hub.notice":
        if (e.position === "prepend") this.body.prepend(el("p", { class: "notice" }, e.text));
        else this.notice(e.text);
        this.addText(textOf(e.text)); // a copy of the answer has its label, as one of the stored answer
        break;
      case "hub.saved":
        this.saved = e;
        this.remedy(e.error);
        for (const budget of listOf(e.budgets)) this.notice(budget.kind === "user" ? t("chat.budget_own", { n: Math.floor((100 * budget.spent) / (budget.hard || budget.soft)) }) : t("chat.budget", { name: budget.name }));
        break;
      default:
    }
  }

  /** @returns {Generator<any>} */
  * take(name, e) {
    switch (name) {
      case "partial_message":
        if (!e.parent_tool_use_id) this.partial(e.partial);
        break;
      case "assistant":
        for (const b of listOf(e.message?.content)) {
          if (b?.type === "tool_use" || e.parent_tool_use_id || !this.parts.has(b?.type)) yield* this.block(b, e.parent_tool_use_id);
        }
        if (!e.parent_tool_use_id) {
          this.endText();
          this.parts.clear();
          if (this.foot.querySelector(".waiting")) this.foot.replaceChildren();
        }
        break;
      case "tool_result":
        if (!this.isFull()) this.fold(e.result.tool_use_id, e.result.tool_name, e.parent_tool_use_id).result(e.result);
        break;
      case "system":
        if (e.subtype === "init") this.model = e.model;
        else yield* this.block({ ...e, type: e.subtype }, null);
        break;
      case "result":
        this.result = e;
        if (e.structured) yield* this.structured(e.structured);
        if (e.is_error) this.conclude(listOf(e.errors)[0] || t("chat.failed"), true);
        break;
      case "error":
        this.conclude(e.error || t("chat.failed"), true);
        break;
      case "cancelled":
        this.conclude(t("chat.stopped"));
        break;
      default:
    }
  }

  partial(p) {
    this.parts.add(p.type);
    this.foot.replaceChildren(); // the answer arrives: nothing waits
    if (p.type === "text") {
      if (!this.stream) {
        if (this.isFull()) return;
        this.endText();
        const node = el("div", { class: "md" });
        this.body.append(node);
        this.lastText = node;
        this.stream = new Markdown(node, labels(), this.budget);
        this.addText("");
      }
      this.text += textOf(p.text);
      this.stream.append(textOf(p.text));
    } else if (p.type === "thinking") {
      if (!this.thinking) {
        if (this.isFull()) return;
        this.endText();
        this.thinking = new Fold(t("chat.thinking"), false, this.budget);
        this.body.append(this.thinking.node);
      }
      this.thinking.append(p.text);
    } else if (p.type === "tool_use") {
      const id = p.tool_use_id || p.id;
      if (this.folds.has(id) || !this.isFull()) this.fold(id, p.tool_name, null).took.textContent = t("state.running");
    }
  }

  /** end shows the foot: time, tokens, cost and actions. @param {any} message */
  end(message) {
    this.endText();
    this.node.classList.remove("live");
    for (const _ of guarded(this.showEnd(message), this.foot));
  }

  /** @param {any} message @returns {Generator<any>} */
  * showEnd({ status, createdAt, usage, model, error, pending }) {
    yield;
    const waiting = status === "waiting";
    if (waiting) this.wait(listOf(pending));
    const facts = [];
    if (createdAt) facts.push(el("time", { datetime: createdAt, title: dateTime(createdAt) }, relative(createdAt)));
    if (model || this.model) facts.push(el("span", {}, model || this.model));
    const used = usage || this.result.usage;
    if (used) facts.push(el("span", {}, t("chat.tokens", { in: compact(used.input_tokens + (used.cache_read_input_tokens || 0) + (used.cache_creation_input_tokens || 0)), out: compact(used.output_tokens) })));
    if (this.result.duration_ms) facts.push(el("span", {}, duration(this.result.duration_ms)));
    if (this.result.total_cost_usd) facts.push(el("span", {}, money(this.result.total_cost_usd)));
    if (status && status !== "completed") facts.push(el("span", {}, t("state." + status)));
    if (error) this.notice(describe(error), true);
    this.remedy(error);
    const copy = el("button", { type: "button", class: "button quiet small", click: async () => {
      await navigator.clipboard.writeText(this.text);
      copy.textContent = t("action.copied");
      setTimeout(() => { copy.textContent = t("action.copy"); }, 2000);
    } }, t("action.copy"));
    const retry = this.question && status && status !== "completed" && !waiting && el("button", { type: "button", class: "button quiet small", click: () => this.actions.retry(this.question) }, t("action.retry"));
    this.foot.replaceChildren(...[this.text && copy, retry, ...facts].filter(Boolean));
  }
}

/** stored adds a stored message to a node. With labels, an answer has the label of its content. @param {any} message @returns {Generator<any>} */
function* stored(message, question, place, { actions = null, labels = false, sourceOf = actions?.sourceOf } = {}) {
  if (message.role === "user") {
    const node = el("article", { class: "message mine", "aria-label": t("chat.question") });
    place.append(node);
    yield* guarded(shown(message, node, sourceOf), node);
    return;
  }
  const answer = new Answer(actions);
  place.append(answer.node);
  if (actions) answer.question = question;
  answer.id = textOf(message.id);
  yield* answer.blocksOf(listOf(message.content));
  if (labels && message.aigc) answer.body.append(labelOf(message.aigc));
  answer.end(message);
}

const isFile = (block) => block?.type === "image" || block?.type === "file";

/** shown adds the text of a message of a user, or its parts. @param {any} message @returns {Generator<any>} */
function* shown({ text, content }, node, sourceOf) {
  yield;
  const blocks = Array.isArray(content) && sourceOf ? content : [];
  if (!blocks.some((b) => isFile(b) && b.uploadId)) {
    node.append(textOf(text));
    return;
  }
  for (const b of blocks) {
    if (isFile(b) && b.uploadId) node.append(attachmentOf(b, sourceOf));
    else if (b?.type === "text") node.append(el("div", {}, b.text));
  }
}

/** labelOf returns a line that opens to the label of generated content. */
function labelOf(label) {
  const fold = new Fold(t("chats.label"), false, new Budget());
  fold.append(pretty(label));
  return fold.node;
}

/** chunkOf returns stored messages as one part of a column, which the browser skips while it is not seen. */
export async function chunkOf(messages, options) {
  const chunk = el("div", { class: "chunk" });
  function* all() {
    for (const [i, message] of messages.entries()) {
      const before = messages[i - 1];
      yield* guarded(stored(message, before?.role === "user" ? before : null, chunk, options), chunk);
    }
  }
  await inSlices(all());
  return chunk;
}

/** Conversation is a column of messages in a part of the page that scrolls. */
export class Conversation {
  constructor(scroller, column, actions) {
    this.scroller = scroller;
    this.column = column;
    this.actions = actions;
    this.following = true;
    scroller.onscroll = () => {
      const following = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 48;
      if (following !== this.following) actions.onFollow(following);
      this.following = following;
      if (scroller.scrollTop < 600) actions.onTop();
    };
    this.sizes = new ResizeObserver(() => { if (this.following) this.latest(); });
    this.sizes.observe(column);
  }

  close() { this.sizes.disconnect(); }

  latest() {
    this.scroller.scrollTop = this.scroller.scrollHeight;
    this.following = true;
    this.actions.onFollow(true);
  }

  clear() { this.column.replaceChildren(); }

  render(messages) { return chunkOf(messages, { actions: this.actions }); }

  /** add appends a part; before puts it at the top without moving what is seen. */
  add(chunk, before = false) {
    if (!before) {
      this.column.append(chunk);
      return;
    }
    const height = this.scroller.scrollHeight - this.scroller.scrollTop;
    this.column.prepend(chunk);
    this.scroller.scrollTop = this.scroller.scrollHeight - height;
  }

  /** ask appends a message of the user, and returns the answer that will follow. */
  ask(message) {
    for (const _ of stored({ ...message, role: "user" }, null, this.column, { actions: this.actions }));
    return this.begin(message);
  }

  /** begin appends the answer to a message, which arrives. */
  begin(message) {
    const answer = new Answer(this.actions);
    answer.question = message;
    answer.node.classList.add("live");
    answer.foot.append(el("span", { class: "waiting" }, t("chat.waiting")));
    this.column.append(answer.node);
    this.latest();
    return answer;
  }
}
