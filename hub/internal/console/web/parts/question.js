// The form of a question: a field for each value of its schema.
import { html, textOf } from "../lib/preact.js";
import { jsonOf, t } from "../app/text.js";
import { exact } from "./exact.js";
import { Field } from "./form.js";
import { Button } from "./basic.js";
import { safeLink } from "./inline.js";

const maxFields = 100;
const maxOptions = 1000;

/** A field has the name of its value, and how it is asked. @typedef {{name: string, kind: string, label: string, help: string, options: {value: any, text: string}[], required: boolean, first: any}} Asked */

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** optionsOf returns the values of a list of constants. */
function optionsOf(p) {
  if (Array.isArray(p.enum)) return p.enum.map((value, i) => ({ value, text: exact(Object(p.enumNames)[i] ?? value) }));
  return Array.isArray(p.oneOf) && p.oneOf.every((o) => isObject(o) && "const" in o) ? p.oneOf.map((o) => ({ value: o.const, text: exact(o.title ?? o.const) })) : [];
}

/** askedOf returns the fields of a schema. One that has others than values of an object has a field for all as JSON. @returns {Asked[]} */
export function askedOf(schema) {
  if (!isObject(schema)) return [];
  const required = Array.isArray(schema.required) ? schema.required : [];
  const properties = isObject(schema.properties) ? Object.entries(schema.properties) : [];
  if (properties.length > maxFields || (!properties.length && Object.keys(schema).some((k) => !["type", "properties", "required", "$schema", "additionalProperties"].includes(k)))) {
    return [{ name: "", kind: "json", label: t("waits.values"), help: exact(jsonOf(schema)), options: [], required: true, first: "{}" }];
  }
  return properties.map(([name, of]) => {
    const p = isObject(of) ? of : {};
    const options = optionsOf(p).slice(0, maxOptions);
    const kind = options.length ? "choice" : ["string", "number", "integer", "boolean"].includes(p.type) ? p.type : "json";
    const start = options.findIndex((o) => o.value === p.default);
    const first = kind === "choice" ? (start < 0 ? "" : String(start)) : kind === "boolean" ? p.default === true : kind === "json" && p.default !== undefined ? jsonOf(p.default) : textOf(p.default);
    return { name, kind, label: exact(p.title || name), help: exact(p.description), options, required: required.includes(name), first };
  });
}

/** problemOf returns why a text is no value of a field, or "". @param {Asked} f */
function problemOf(f, text) {
  if (text === "" || text === undefined) return f.required ? t("reason.empty") : "";
  if (f.kind === "number" || f.kind === "integer") return text.trim() && (f.kind === "integer" ? Number.isSafeInteger : Number.isFinite)(Number(text)) ? "" : t("waits.kind." + f.kind);
  if (f.kind !== "json") return "";
  try {
    return f.name || isObject(JSON.parse(text)) ? "" : t("waits.not_object");
  } catch {
    return t("form.not_json");
  }
}

function valueOf(f, text) {
  if (f.kind === "choice") return f.options[Number(text)].value;
  if (f.kind === "number" || f.kind === "integer") return Number(text);
  return f.kind === "json" ? JSON.parse(text) : text;
}

/** read returns the values of fields, or the problems by the index of the field. @param {Asked[]} asked @param {any[]} texts */
export function read(asked, texts) {
  const problems = asked.map((f, i) => problemOf(f, texts[i]));
  if (problems.some(Boolean)) return { problems };
  const given = asked.map((f, i) => [f, texts[i]]).filter(([, text]) => text !== "" && text !== undefined);
  if (asked.length === 1 && !asked[0].name) return { content: JSON.parse(texts[0]) };
  return { content: Object.fromEntries(given.map(([f, text]) => [f.name, valueOf(f, text)])) };
}

/** Values are the fields. @param {{asked: Asked[], texts: any[], problems: string[], set: (i: number, text: any) => void}} props */
export const Values = ({ asked, texts, problems, set }) => asked.map((f, i) => html`<${Field} key=${i} label=${f.label} help=${f.help} error=${problems[i]} inline=${f.kind === "boolean"}>${(a) => {
  const change = (e) => set(i, e.target.value);
  if (f.kind === "boolean") return html`<input type="checkbox" ...${a} checked=${Boolean(texts[i])} onChange=${(e) => set(i, e.target.checked)} />`;
  if (f.kind === "choice") {
    return html`<select ...${a} aria-required=${f.required ? "true" : undefined} onChange=${change}><option value="">${t("form.choose")}</option>
      ${f.options.map((o, n) => html`<option value=${n} selected=${texts[i] === String(n)}>${o.text}</option>`)}</select>`;
  }
  if (f.kind === "json") return html`<textarea ...${a} rows="4" class="code" spellcheck="false" aria-required=${f.required ? "true" : undefined} value=${texts[i]} onInput=${change}></textarea>`;
  return html`<input ...${a} autocomplete="off" inputmode=${f.kind === "string" ? undefined : "decimal"} aria-required=${f.required ? "true" : undefined} value=${texts[i]} onInput=${change} />`;
}}</${Field}>`);

/** Address shows the whole address of a question. Only a click opens it, and it does not know this page. */
export function Address({ url }) {
  const safe = /^https?:/.test(safeLink(url));
  return html`<pre class="exact" tabindex="0" role="group" aria-label=${t("waits.address")}>${exact(url)}</pre>
    ${safe ? html`<${Button} kind="small" action=${() => { window.open(safeLink(url), "_blank", "noopener,noreferrer"); }}>${t("waits.open")}</${Button}>` : html`<p class="soft">${t("waits.not_opened")}</p>`}`;
}
