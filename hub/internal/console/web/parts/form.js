// Forms: fields with the errors of the hub in their place, changes, and conflicts.
import { html, useLayoutEffect, useRef, useState } from "../lib/preact.js";
import { t } from "../app/text.js";
import { setGuard } from "../app/router.js";
import { Button, describe, isEnter, reasonOf, useId } from "./basic.js";
import { confirm } from "./dialog.js";

/** Field has a label above, help below, and the error in its place. Its child is a function of the attributes of the control. */
export function Field({ label, help, error, children, inline, changed }) {
  const id = useId();
  const described = [help && id + "h", error && id + "e"].filter(Boolean).join(" ");
  const attributes = { id, "aria-invalid": error ? "true" : undefined, "aria-describedby": described || undefined };
  return html`<div class="field ${inline ? "inline" : ""} ${changed ? "changed" : ""}">
    ${inline && children(attributes)}
    <label for=${id}>${label}${changed && html`<span class="dot" title=${t("form.changed")} aria-label=${t("form.changed")} role="img"></span>`}</label>
    ${!inline && children(attributes)}
    ${help && html`<p class="help" id=${id + "h"}>${help}</p>`}
    ${error && html`<p class="error" id=${id + "e"}>${error}</p>`}
  </div>`;
}

/** useForm has the values of a form. initial are the stored ones. */
export function useForm(initial, save, { guarded = true } = {}) {
  const [values, setValues] = useState(initial);
  const [stored, setStored] = useState(initial);
  const [fault, setFault] = useState(null);
  const [busy, setBusy] = useState(false);
  const form = useRef(null);
  const isChanged = (name) => JSON.stringify(values[name]) !== JSON.stringify(stored[name]);
  const dirty = Object.keys(values).some(isChanged);
  useLayoutEffect(() => { // before the user can leave
    if (!guarded || !dirty) return undefined;
    setGuard(() => confirm({ title: t("form.leave"), text: t("form.leave_text"), action: t("form.leave_action"), danger: true }));
    return () => setGuard(null);
  }, [guarded, dirty]);
  const submit = async (event) => {
    if (event) event.preventDefault();
    if (busy || (form.current && !form.current.reportValidity())) return;
    setBusy(true);
    setFault(null);
    try {
      setGuard(null);
      await save(values);
      setStored(values);
    } catch (error) {
      setFault(error);
      setTimeout(() => form.current && form.current.querySelector("[aria-invalid=true]")?.focus());
    } finally {
      setBusy(false);
    }
  };
  const errorOf = (name) => {
    if (!fault) return undefined;
    const found = Object.entries(fault.fields).filter(([field]) => field === name || field.startsWith(name + ".") || field.startsWith(name + "["));
    return found.length ? found.map(([field, text]) => (field === name ? reasonOf(text) : field.slice(name.length) + " " + reasonOf(text))).join("; ") : undefined;
  };
  return {
    values, stored, dirty, busy, fault, form, submit, errorOf, isChanged, setFault,
    set: (name, value) => setValues((v) => ({ ...v, [name]: value })),
    reset: (next = stored) => { setStored(next); setValues(next); setFault(null); },
    onKeyDown: (event) => { if (isEnter(event) && (event.ctrlKey || event.metaKey)) submit(event); },
  };
}

/** Form is a form of useForm with its summary and buttons. */
export function Form({ form, action, children, cancel, always, names = [] }) {
  const others = form.fault ? Object.entries(form.fault.fields).filter(([field]) => !names.some((n) => field === n || field.startsWith(n + ".") || field.startsWith(n + "["))) : [];
  return html`<form ref=${form.form} class="form ${form.dirty && !always ? "dirty" : ""}" onSubmit=${form.submit} onKeyDown=${form.onKeyDown} novalidate=${false}>
    ${children}
    <div class="error" role="alert">${form.fault && form.fault.code !== "precondition_failed" && (others.length ? others.map(([f, text]) => html`<p><code>${f}</code> ${reasonOf(text)}</p>`) : html`<p>${describe(form.fault)}</p>`)}</div>
    <div class="buttons">
      <${Button} kind="primary" busy=${form.busy} disabled=${!always && !form.dirty} title="Ctrl+Enter">${action}</${Button}>
      ${cancel && html`<${Button} action=${cancel}>${t("action.cancel")}</${Button}>`}
      ${form.dirty && !always && html`<span class="soft" role="status">${t("form.unsaved")}</span>`}
    </div>
  </form>`;
}

const input = (form, name, rest) => (a) => html`<input ...${a} name=${name} value=${form.values[name] ?? ""} onInput=${(e) => form.set(name, e.target.value)} autocomplete="off" ...${rest} />`;
const shared = (form, name, label, help) => ({ label, help, error: form.errorOf(name), changed: form.isChanged(name) });

export const TextField = ({ form, name, label, help, ...rest }) => html`<${Field} ...${shared(form, name, label, help)}>${input(form, name, rest)}</${Field}>`;

export const NumberField = ({ form, name, label, help, ...rest }) => html`<${Field} ...${shared(form, name, label, help)}>
  ${(a) => html`<input type="number" ...${a} name=${name} value=${form.values[name] ?? ""} onInput=${(e) => form.set(name, e.target.value === "" ? null : Number(e.target.value))} ...${rest} />`}</${Field}>`;

export const AreaField = ({ form, name, label, help, rows = 4, code, ...rest }) => html`<${Field} ...${shared(form, name, label, help)}>
  ${(a) => html`<textarea ...${a} name=${name} rows=${rows} class=${code ? "code" : ""} spellcheck=${code ? "false" : undefined} value=${form.values[name] ?? ""} onInput=${(e) => form.set(name, e.target.value)} ...${rest}></textarea>`}</${Field}>`;

export const SelectField = ({ form, name, label, help, options, ...rest }) => html`<${Field} ...${shared(form, name, label, help)}>
  ${(a) => html`<select ...${a} name=${name} value=${form.values[name] ?? ""} onChange=${(e) => form.set(name, e.target.value)} ...${rest}>
    ${options.map((o) => html`<option value=${o.value} selected=${(form.values[name] ?? "") === o.value}>${o.text}</option>`)}</select>`}</${Field}>`;

export const CheckField = ({ form, name, label, help }) => html`<${Field} inline ...${shared(form, name, label, help)}>
  ${(a) => html`<input type="checkbox" ...${a} name=${name} checked=${Boolean(form.values[name])} onChange=${(e) => form.set(name, e.target.checked)} />`}</${Field}>`;

/** NamesField is a list of names with add and remove. With options, only those can be added. */
export function NamesField({ form, name, label, help, options }) {
  const [text, setText] = useState("");
  const id = useId();
  const names = form.values[name] || [];
  const add = (value) => {
    const trimmed = value.trim();
    if (trimmed && !names.includes(trimmed)) form.set(name, [...names, trimmed]);
    setText("");
  };
  const remove = (value) => form.set(name, names.filter((n) => n !== value));
  return html`<${Field} ...${shared(form, name, label, help)}>${(a) => html`<div class="names">
    ${names.length > 0 && html`<ul>${names.map((n) => html`<li key=${n}><code>${n}</code><button type="button" class="button quiet small" aria-label=${t("form.remove", { name: n })} onClick=${() => remove(n)}>×</button></li>`)}</ul>`}
    <div class="add"><input ...${a} list=${options ? id : undefined} value=${text} autocomplete="off" spellcheck="false" onInput=${(e) => {
      const value = e.target.value;
      if (options && options.some((o) => o.value === value) && e.inputType !== "insertText" && e.inputType !== "deleteContentBackward") add(value);
      else setText(value);
    }} onKeyDown=${(e) => {
      if (isEnter(e) && !e.ctrlKey && !e.metaKey) {
        e.preventDefault();
        add(text);
      } else if (e.key === "Backspace" && !text && names.length) remove(names[names.length - 1]);
    }} />
    ${options && html`<datalist id=${id}>${options.filter((o) => !names.includes(o.value)).map((o) => html`<option value=${o.value}>${o.text}</option>`)}</datalist>`}
    <button type="button" class="button plain" disabled=${!text.trim()} onClick=${() => add(text)}>${t("action.add")}</button></div></div>`}</${Field}>`;
}
