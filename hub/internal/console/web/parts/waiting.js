// What an answer waits for: calls that a person approves, and questions. What is shown is what runs.
import { html, textOf, useEffect, useRef, useState } from "../lib/preact.js";
import { get, path } from "../app/api.js";
import { jsonOf, t } from "../app/text.js";
import { Button, describe, reasonsOf, useLoad } from "./basic.js";
import { escaped, exact, Exact, Executed, executedOf, linesOf } from "./exact.js";
import { Field } from "./form.js";
import { Part } from "./part.js";
import { Address, askedOf, read, Values } from "./question.js";

/** @typedef {{kind: string, reason: string, input: string, texts: any[], problems: any[]}} Choice */

/** changed tells the count of what waits that there may be another one. */
export const changed = () => dispatchEvent(new Event("waits"));

/** first returns the choice before the user has made one. @returns {Choice} */
const first = (call) => ({ kind: "", reason: "", input: escaped(jsonOf(call.input ?? {})), texts: askedOf(call.schema).map((f) => f.first), problems: [] });

/** answerOf returns the answer of a choice, or the choice with what is wrong. @param {any} call @param {Choice} choice @returns {{answer?: any, wrong?: Choice}} */
function answerOf(call, choice) {
  const { kind } = choice;
  if (kind === "reject") return { answer: { id: call.id, decision: kind, ...(choice.reason && { reason: choice.reason }) } };
  if (kind === "approve") return { answer: { id: call.id, decision: kind } };
  if (kind === "decline" || kind === "cancel") return { answer: { id: call.id, action: kind } };
  if (kind === "accept") {
    const { content, problems } = read(askedOf(call.schema), choice.texts);
    return problems ? { wrong: { ...choice, problems } } : { answer: { id: call.id, action: kind, ...(call.schema && { content }) } };
  }
  let input;
  try {
    input = JSON.parse(choice.input);
  } catch { /* it has a text */ }
  if (typeof input !== "object" || input === null || Array.isArray(input)) return { wrong: { ...choice, problems: [t("waits.not_object")] } };
  return { answer: { id: call.id, decision: "approve", ...(JSON.stringify(input) !== JSON.stringify(call.input) && { input }) } };
}

const ignored = (event) => { if (event.key === "Enter") event.preventDefault(); };
/** noEnter leaves Enter without effect: a key that sends messages approves nothing. */
const noEnter = { onKeyDown: ignored, onKeyPress: ignored };

const awake = 500; // milliseconds after which the buttons of a card react: they may have come under a cursor
const encoder = new TextEncoder();

/** Size tells how much there is to read, of which perhaps only a part is in view. */
const Size = ({ text }) => html`<p class="soft">${t("waits.size", { n: linesOf(text).length, bytes: encoder.encode(text).length })}</p>`;

/** Call shows one call or question. choose takes what the user decides; without it, the user only reads. */
function Call({ call, choice, choose, ready, note }) {
  const isQuestion = call.kind === "question";
  const asked = isQuestion ? askedOf(call.schema) : [];
  const button = (kind, text) => html`<${Button} kind=${choice.kind === kind ? "chosen" : "plain"} disabled=${!ready} aria-pressed=${choice.kind === kind ? "true" : "false"}
    ...${["reject", "decline", "cancel"].includes(kind) ? {} : noEnter} action=${() => choose({ kind, problems: [] }, true)}>${text}</${Button}>`;
  return html`<div class="call">
    <h2>${isQuestion ? (call.server ? t("waits.question_of", { name: exact(call.server) }) : t("waits.question")) : html`${t("waits.approval")} <code><${Exact} text=${call.tool_name} /></code>`}</h2>
    ${call.reason && html`<p class="why"><${Exact} text=${call.reason} /></p>`}
    ${call.kind === "approval" && html`<${Executed} call=${call} /><${Size} text=${executedOf(call)} />`}
    ${call.kind === "client_tool" && html`<pre class="exact" tabindex="0" role="group" aria-label=${t("chat.input")}>${escaped(jsonOf(call.input))}</pre>`}
    ${call.url && html`<${Address} url=${textOf(call.url)} />`}
    ${note && html`<p class="note info">${note}</p>`}
    ${choose && html`${isQuestion && html`<${Values} asked=${asked} texts=${choice.texts} problems=${choice.problems} set=${(i, text) => choose({ texts: choice.texts.map((before, n) => (n === i ? text : before)), problems: [] })} />`}
      <div class="buttons" role="group" aria-label=${t("waits.decision")}>${isQuestion ? [button("accept", t("waits.accept")), button("decline", t("waits.decline")), button("cancel", t("action.cancel"))]
    : [button("approve", t("waits.approve")), button("reject", t("waits.reject")), button("edit", t("waits.edit"))]}</div>
      ${choice.kind === "reject" && html`<${Field} label=${t("waits.reason")} help=${t("waits.reason_help")}>${(a) => html`<input ...${a} maxlength="2000" autocomplete="off" value=${choice.reason} onInput=${(e) => choose({ reason: e.target.value })} />`}</${Field}>`}
      ${choice.kind === "edit" && html`<${Field} label=${t("waits.input")} help=${t("waits.input_help")} error=${choice.problems[0]}>${(a) => html`<textarea ...${a} class="code exact" rows=${Math.min(16, choice.input.split("\n").length + 1)} spellcheck="false" value=${choice.input} onInput=${(e) => choose({ input: e.target.value, problems: [] })}></textarea>`}</${Field}>`}`}
  </div>`;
}

/** Waiting is a card of all that an answer waits for. send takes the answers, and can fail. An approval that the user may not give has a note. place changes if the card moves. */
export function Waiting({ pending, may, note, place, send }) {
  const [choices, setChoices] = useState(() => pending.map(first));
  const latest = useRef(choices); // also before the next rendering
  const decide = (all) => {
    latest.current = all;
    setChoices(all);
  };
  const [fault, setFault] = useState(/** @type {any} */ (null));
  const shown = `${may} ${note} ${place}`;
  const [seen, setSeen] = useState("");
  const ready = seen === shown;
  const sending = useRef(false);
  useEffect(() => {
    setSeen("");
    const timer = setTimeout(() => setSeen(shown), awake);
    return () => clearTimeout(timer);
  }, [shown]);
  const isProgram = pending.some((p) => p.kind === "client_tool");
  const isMine = (p) => !isProgram && (p.kind === "question" || (p.kind === "approval" && may));
  const mine = pending.filter(isMine);
  const noteOf = (p) => (isProgram ? t("waits.program") : isMine(p) ? "" : note);
  const submit = async (all) => {
    const results = pending.map((p, i) => (isMine(p) ? answerOf(p, all[i]) : {}));
    decide(all.map((choice, i) => results[i].wrong || choice));
    if (sending.current || results.some((r) => r.wrong)) return;
    sending.current = true;
    setFault(null);
    try {
      await send(results.map((r) => r.answer).filter(Boolean));
      changed();
    } catch (error) {
      setFault(error);
    } finally {
      sending.current = false;
    }
  };
  const choose = (i) => (values, decided) => {
    const all = latest.current.map((before, n) => (n === i ? { ...before, ...values } : before));
    decide(all);
    return decided && mine.length === 1 && !["reject", "edit"].includes(values.kind) ? submit(all) : undefined;
  };
  const chosen = pending.filter((p, i) => isMine(p) && choices[i].kind).length;
  const only = mine.length === 1 ? choices[pending.indexOf(mine[0])].kind : "";
  return html`<div class="wait" role="group" aria-label=${t("waits.title")}>
    ${pending.map((p, i) => html`<${Part} key=${p.id} in="div" of=${() => html`<${Call} call=${p} choice=${choices[i]} choose=${isMine(p) && choose(i)} ready=${ready} note=${noteOf(p)} />`} />`)}
    ${mine.length > 0 && html`<p class="soft">${t("waits.keys")}</p>`}
    <div class="error" role="alert">${fault && html`<p>${Object.keys(fault.fields || {}).length ? reasonsOf(fault) : describe(fault)}</p>`}</div>
    ${(mine.length > 1 || only === "reject" || only === "edit") && html`<div class="buttons"><${Button} kind=${only === "reject" ? "danger" : "primary"} disabled=${!ready || chosen < mine.length} ...${noEnter} action=${() => submit(choices)}>
      ${mine.length > 1 ? t("waits.send") : only === "reject" ? t("waits.send_reject") : t("waits.send_edit")}</${Button}>
      ${mine.length > 1 && html`<span class="soft" role="status">${t("waits.chosen", { n: chosen, all: mine.length })}</span>`}</div>`}
  </div>`;
}

/** OwnWaiting is the card for the owner of the chat, who may not be the one who approves. */
export function OwnWaiting({ pending, send }) {
  const asked = pending.find((p) => p.kind === "approval");
  const state = useLoad(() => (asked ? get("/api/v1" + path("approvals", asked.id)) : { approvers: "owner" }), []);
  const approvers = state.data?.approvers;
  return html`<${Waiting} pending=${pending} may=${approvers === "owner"} note=${approvers && t("waits.for." + approvers)} send=${send} />
    ${state.fault && html`<div class="note bad" role="alert">${describe(state.fault)} <${Button} kind="small" action=${state.reload}>${t("action.retry")}</${Button}></div>`}`;
}
