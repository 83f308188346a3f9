// Dialogs and short notices.
import { html, render, useEffect, useRef, useState } from "../lib/preact.js";
import { t } from "../app/text.js";

/** Dialog is modal. onClose is called by Escape too. */
export function Dialog({ title, children, onClose, wide }) {
  const ref = useRef(null);
  useEffect(() => {
    const dialog = ref.current;
    dialog.showModal();
    return () => dialog.close(); // the focus returns to where it was
  }, []);
  return html`<dialog ref=${ref} class=${wide ? "wide" : ""} aria-label=${title} onCancel=${(event) => { event.preventDefault(); onClose(); }}>
    <h2>${title}</h2>${children}</dialog>`;
}

/** open shows a dialog until its content calls close with a result. */
export function open(content) {
  return new Promise((resolve) => {
    const place = document.createElement("div");
    document.body.append(place);
    const close = (result) => {
      render(null, place);
      place.remove();
      resolve(result);
    };
    render(content(close), place);
  });
}

function Confirm({ title, text, items = [], action, name, danger, close }) {
  const [typed, setTyped] = useState("");
  return html`<${Dialog} title=${title} onClose=${() => close(false)}>
    <form method="dialog" onSubmit=${(event) => { event.preventDefault(); close(true); }}>
      <p>${text}</p>
      ${items.length > 0 && html`<ul class="goes" tabindex="0" aria-label=${title}>${items.map((item) => html`<li>${item}</li>`)}</ul>`}
      ${name && html`<label>${t("dialog.type_name", { name })}<input value=${typed} onInput=${(e) => setTyped(e.target.value)} autocomplete="off" spellcheck="false" /></label>`}
      <div class="buttons">
        <button type="button" class="button plain" onClick=${() => close(false)}>${t("action.cancel")}</button>
        <button class="button ${danger ? "danger" : "primary"}" disabled=${Boolean(name) && typed !== name}>${action}</button>
      </div>
    </form>
  </${Dialog}>`;
}

/** confirm asks before an action. With items, it names what goes, and with a name, the user types it. */
export const confirm = (question) => open((close) => html`<${Confirm} ...${question} close=${close} />`);

/** @type {HTMLElement|null} */
let host = null;
/** @type {{id: number, text: string, kind: string}[]} */
const toasts = [];
function draw() {
  if (!host) {
    host = document.createElement("div");
    document.body.append(host);
  }
  render(html`<div class="toasts" aria-live="polite" role="status">${toasts.map((item) => html`<div key=${item.id} class="toast ${item.kind}">
    <span>${item.text}</span>
    <button type="button" class="button quiet small" aria-label=${t("action.close")} onClick=${() => remove(item)}>×</button></div>`)}</div>`, host);
}
function remove(item) {
  const i = toasts.indexOf(item);
  if (i >= 0) toasts.splice(i, 1);
  draw();
}

/** toast shows a notice. An error stays longer. */
export function toast(text, { kind = "" } = {}) {
  const item = { id: Math.random(), text, kind };
  toasts.push(item);
  if (toasts.length > 4) toasts.shift();
  draw();
  setTimeout(() => remove(item), kind === "bad" ? 10_000 : 4000);
}
