// Providers and the components of agents: one list and one form for all of them. kinds.js has what differs.
import { html, useRef, useState } from "../lib/preact.js";
import { admin, call, canWrite, get, query, request, save, upload } from "../app/api.js";
import { go, setQuery, to } from "../app/router.js";
import { bytes, descriptionOf, t, titleOf } from "../app/text.js";
import { Button, Copy, describeProbe, Empty, Facts, Loaded, LoadedPage, Page, Paging, reasonsOf, Search, State, Time, useLoad } from "../parts/basic.js";
import { confirm, Dialog, open, toast } from "../parts/dialog.js";
import { Diff } from "../parts/diff.js";
import { AreaField, CheckField, Form, NamesField, NumberField, SelectField, TextField, useForm } from "../parts/form.js";
import { Table } from "../parts/table.js";
import { filesOf } from "../parts/zip.js";
import { kinds, useOptions } from "./kinds.js";

const pageSize = 100; // the most of a page of the hub: a list that is shown whole can be sorted
const maxArchive = 8 << 20; // bytes of a skill whose files are listed
const maxShown = 1 << 20; // bytes of a file that is shown

const controls = { text: TextField, area: AreaField, number: NumberField, check: CheckField, select: SelectField, names: NamesField };

/** Fields are the fields of a kind, in its order. */
function Fields({ form, kind, options, existing }) {
  return kind.fields.filter((f) => !(existing && f.fixed) && (!f.when || f.when(form.values))).map((f) => {
    const { name, type = "text", fixed, when, value, parse, label, help, helpNew, choices, ...rest } = f;
    const Control = controls[type];
    return html`<${Control} key=${name} form=${form} name=${name} label=${t("field." + (label || name))} help=${help && t(!existing && f.helpNew ? f.helpNew : help)} options=${choices ? choices(options) : undefined} ...${rest} />`;
  });
}

/** body returns the fields of a request. */
function body(kind, values, existing) {
  const result = {};
  for (const f of kind.fields) {
    if ((existing && f.fixed) || (f.when && !f.when(values))) continue;
    try {
      const value = f.parse ? f.parse(values[f.name]) : values[f.name];
      if (value !== undefined) result[f.name] = value;
    } catch {
      throw Object.assign(new Error(), { fields: { [f.name]: t("form.not_json") }, code: "validation_failed" });
    }
  }
  return result;
}

const valuesOf = (kind, item) => Object.fromEntries(kind.fields.map((f) => [f.name, f.value ? f.value(item) : item[f.name] ?? { check: false, names: [], number: null }[f.type] ?? ""]));

/** Upload takes a file by drag and drop or by a dialog, and shows the progress. */
function Upload({ kind, accept, method, target, fields, onDone }) {
  const [over, setOver] = useState(false);
  const [progress, setProgress] = useState(null);
  const [fault, setFault] = useState(null);
  const input = useRef(null);
  const take = async (file) => {
    if (!file) return;
    const form = new FormData();
    for (const [name, value] of Object.entries(fields || {})) form.append(name, value);
    form.append("file", file);
    setFault(null);
    setProgress(0);
    try {
      onDone(await upload(method, target, form, setProgress));
    } catch (error) {
      setFault(error);
    } finally {
      setProgress(null);
    }
  };
  return html`<div class="drop ${over ? "over" : ""}" onDragOver=${(e) => { e.preventDefault(); setOver(true); }} onDragLeave=${() => setOver(false)}
      onDrop=${(e) => { e.preventDefault(); setOver(false); take(e.dataTransfer.files[0]); }}>
    <p>${t("upload." + kind)}</p>
    <input type="file" class="hidden" ref=${input} accept=${accept} aria-label=${t("upload.choose")} tabindex="-1" onChange=${(e) => { take(e.target.files[0]); e.target.value = ""; }} />
    <${Button} action=${() => input.current.click()} busy=${progress !== null}>${t("upload.choose")}</${Button}>
    ${progress !== null && html`<p><progress max="1" value=${progress} aria-label=${t("upload.progress")}></progress></p>`}
    <div class="error" role="alert">${fault && reasonsOf(fault)}</div>
  </div>`;
}

/** Probe tests a provider, stored or not. */
function Probe({ run, use }) {
  const [result, setResult] = useState(null);
  return html`<div class="probe"><${Button} action=${async () => setResult(await run())}>${t("provider.probe")}</${Button}>
    ${result && html`<div class="note ${result.ok ? "info" : "bad"}" role="status"><p>${result.ok ? t("provider.probe_ok", { ms: result.latencyMs }) : describeProbe(result)}</p>
      ${result.models && result.models.length > 0 && html`<p>${t("provider.models_found", { n: result.models.length })} ${result.models.slice(0, 12).map((m) => html`<code>${m.id}</code> `)}</p>
        ${use && html`<${Button} kind="small" action=${() => use(result.models)}>${t("provider.use_models")}</${Button}>`}`}</div>`}</div>`;
}

/** SharedKey is the form for the key that the organization gives to a built-in provider. */
function SharedKey({ provider, reload }) {
  const path = admin("providers", provider.id, "key");
  const form = useForm({ apiKey: "" }, async (v) => {
    await call("PUT", path, v);
    toast(t("form.saved"));
    await reload();
  });
  const remove = async () => {
    if (!(await confirm({ title: t("provider.remove_key_title", { name: provider.name }), text: t("provider.remove_key_text"), action: t("provider.remove_key"), danger: true }))) return;
    await call("DELETE", path);
    toast(t("form.saved"));
    await reload();
  };
  return html`<h2>${t(provider.hasKey ? "provider.replace_key" : "provider.add_key")}</h2><p>${t("provider.add_key_text")}</p>
    <${Form} key=${provider.version} form=${form} action=${t("action.save")}><${TextField} form=${form} name="apiKey" label=${t("field.apiKey")} help=${t("provider.apiKey_new")} required maxlength="4096" spellcheck="false" /></${Form}>
    ${provider.hasKey && html`<${Button} kind="danger" action=${remove}>${t("provider.remove_key")}</${Button}>`}`;
}

function Key({ provider }) {
  const [key, setKey] = useState("");
  return key ? html`<code>${key}</code> <${Copy} text=${key} />` : html`<${Button} kind="small" action=${async () => setKey((await call("POST", admin("providers", provider.id, "reveal-key"))).apiKey)}>${t("provider.reveal")}</${Button}>`;
}

/** Source shows the file of a tool. */
function Source({ tool }) {
  const state = useLoad(async () => (await request("GET", admin("tools", tool.name, "download"), { headers: { Accept: "*/*" } })).text(), [tool.hash]);
  return html`<h2>${t("tool.source")}</h2><${Loaded} state=${state}>${(text) => html`<pre class="lines" tabindex="0">${text.slice(0, 500_000)}</pre>
    <div class="buttons"><${Copy} text=${text} /><${Button} kind="small" action=${() => save(admin("tools", tool.name, "download"), tool.fileName)}>${t("files.download")}</${Button}></div>`}</${Loaded}>`;
}

const linkOf = async (skill) => new URL((await get("/api/v1/skills/" + encodeURIComponent(skill.name) + "/download")).url);

/** Archive shows the files of a skill, unless another server has them, whose content pages cannot read. */
function Archive({ skill }) {
  const state = useLoad(async () => {
    const url = await linkOf(skill);
    if (url.origin !== location.origin || skill.size > maxArchive) return [];
    return filesOf(await (await fetch(url)).arrayBuffer());
  }, [skill.hash]);
  const show = (file) => open((close) => html`<${ArchivedFile} file=${file} close=${close} />`);
  return html`<${Loaded} state=${state}>${(files) => files.length > 0 && html`<h2>${t("files.title")}</h2><ul class="tree">${files.map((f) => html`<li key=${f.name}>
    <${Button} kind="quiet" disabled=${f.size > maxShown} action=${() => show(f)}>${f.name}</${Button}><span class="soft">${bytes(f.size)}</span></li>`)}</ul>`}</${Loaded}>`;
}

function ArchivedFile({ file, close }) {
  const state = useLoad(() => file.text());
  return html`<${Dialog} wide title=${file.name} onClose=${() => close()}><${Loaded} state=${state}>${(text) => html`<pre class="lines wrap" tabindex="0">${text}</pre>`}</${Loaded}>
    <div class="buttons"><${Button} kind="primary" action=${() => close()}>${t("action.close")}</${Button}></div></${Dialog}>`;
}

async function downloadSkill(skill) {
  const url = await linkOf(skill);
  const a = document.createElement("a");
  a.href = url.href;
  a.download = skill.name + ".zip";
  a.click();
}

function Edit({ name, kind, item, options, reload }) {
  const [base, setBase] = useState(item);
  const [theirs, setTheirs] = useState(null);
  const id = kind.idOf(item);
  const store = async (values, version) => {
    const saved = await call("PUT", admin(name, id), body(kind, values, true), { headers: version ? { "If-Match": String(version) } : {} });
    setBase(saved);
    setTheirs(null);
    toast(t("form.saved"));
    await reload();
  };
  const form = useForm(valuesOf(kind, item), async (v) => {
    try {
      await store(v, base.version);
    } catch (fault) {
      if (fault.code === "precondition_failed") setTheirs(await get(admin(name, id)));
      throw fault;
    }
  });
  const text = (v) => JSON.stringify(v, null, 2);
  return html`${theirs && html`<div class="panel" role="alert"><h2>${t("form.conflict")}</h2><p>${t("form.conflict_text")}</p><${Diff} from=${text(valuesOf(kind, theirs))} to=${text(form.values)} label=${t("form.conflict")} />
      <div class="buttons"><${Button} kind="danger" action=${async () => { await store(form.values, theirs.version); form.reset(form.values); }}>${t("form.keep_mine")}</${Button}>
      <${Button} action=${() => { setBase(theirs); form.reset(valuesOf(kind, theirs)); setTheirs(null); }}>${t("form.take_theirs")}</${Button}></div></div>`}
    <${Form} form=${form} action=${t("action.save")} names=${kind.fields.map((f) => f.name)}><${Fields} form=${form} kind=${kind} options=${options} existing /></${Form}>
    ${name === "providers" && html`<h2>${t("provider.probe")}</h2><${Probe} use=${useModels(form)} run=${() => (form.dirty ? call("POST", admin("providers", "probe"), probeBody(form.values)) : call("POST", admin("providers", id, "probe")))} />`}`;
}

/** useModels returns a function that sets the models of the form to those that a provider serves. */
const useModels = (form) => (models) => form.set("models", models.map((m) => m.id).join("\n"));
const probeBody = (v) => ({ protocol: v.protocol, authStyle: v.authStyle, baseUrl: v.baseUrl, apiKey: v.apiKey || "" });

function Create({ name, kind }) {
  const options = useOptions(kind);
  const initial = Object.fromEntries(kind.fields.map((f) => [f.name, f.initial ?? (f.value ? f.value({}) : { check: false, names: [], number: null }[f.type] ?? "")]));
  const form = useForm(initial, async (v) => {
    const made = await call("POST", admin(name), body(kind, v, false));
    toast(t("form.created"));
    await go(to(name, kind.idOf(made)), { force: true });
  });
  return html`<${Page} title=${t(name + ".create")} crumbs=${[{ href: to(name), text: t("page." + name) }]}>
    <${Loaded} state=${options}>${(found) => html`<${Form} form=${form} action=${t("action.create")} names=${kind.fields.map((f) => f.name)} cancel=${() => go(to(name))}><${Fields} form=${form} kind=${kind} options=${found} /></${Form}>
      ${name === "providers" && html`<h2>${t("provider.probe")}</h2><${Probe} use=${useModels(form)} run=${() => call("POST", admin("providers", "probe"), probeBody(form.values))} />`}`}</${Loaded}></${Page}>`;
}

function CreateByUpload({ name, kind }) {
  return html`<${Page} title=${t(name + ".create")} crumbs=${[{ href: to(name), text: t("page." + name) }]}>
    <p>${t("upload." + name + "_text")}</p><${Upload} kind=${name} accept=${kind.accept} method="POST" target=${admin(name)} onDone=${(made) => { toast(t("form.created")); go(to(name, made.name)); }} /></${Page}>`;
}

function Detail({ name, kind, item, reload }) {
  const options = useOptions(kind);
  const id = kind.idOf(item);
  const editable = canWrite() && !kind.readOnly?.(item);
  const remove = async () => {
    if (!(await confirm({ title: t("component.delete_title", { name: titleOf(item) }), text: t("component.delete_text"), action: t("action.delete"), danger: true, name: item.name }))) return;
    try {
      await call("DELETE", admin(name, id));
    } catch (fault) {
      if (!fault.data.agents) throw fault;
      toast(t("component.in_use", { agents: fault.data.agents.join(", ") }), { kind: "bad" });
      return;
    }
    go(to(name), { force: true });
  };
  const facts = [[t("list.state"), stateOf(item)], ...kind.facts(item), item.size && [t("field.size"), bytes(item.size)], item.hash && [t("field.hash"), html`<code>${item.hash.slice(0, 19)}…</code> <${Copy} text=${item.hash} />`],
    name === "providers" && canWrite() && item.hasKey && [t("provider.key"), html`<code>${item.maskedKey}</code> <${Key} provider=${item} />`],
    item.updatedAt && [t("list.updated"), html`<${Time} at=${item.updatedAt} />`]];
  return html`<${Page} title=${titleOf(item)} crumbs=${[{ href: to(name), text: t("page." + name) }]} action=${(editable || name === "skills") && html`
      ${name === "skills" && html`<${Button} action=${() => downloadSkill(item)}>${t("files.download")}</${Button}>`}
      ${editable && html`<${Button} kind="danger" action=${remove}>${t("action.delete")}</${Button}>`}`}>
    <div class="split"><div>
    ${item.status === "missing" && html`<div class="note bad">${t("component.missing")}</div>`}
    ${editable ? html`<${Loaded} state=${options}>${(found) => html`<${Edit} key=${id} name=${name} kind=${kind} item=${item} options=${found} reload=${reload} />`}</${Loaded}>` : html`<p class="lead">${descriptionOf(item) || html`<span class="soft">${t(name + ".text")}</span>`}</p>`}
    ${!editable && name === "providers" && canWrite() && item.protocol !== "demo" && html`<${SharedKey} key=${item.version} provider=${item} reload=${reload} /><${Probe} run=${() => call("POST", admin("providers", id, "probe"))} />`}
    ${editable && kind.accept && html`<h2>${t("upload.replace")}</h2><${Upload} kind=${name} accept=${kind.accept} method="PUT" target=${admin(name, id, "file")} onDone=${async () => { toast(t("form.saved")); await reload(); }} />`}
    ${name === "tools" && item.source === "custom" && item.status === "ready" && html`<${Source} tool=${item} />`}
    ${name === "skills" && item.status === "ready" && html`<${Archive} skill=${item} />`}
    </div><aside aria-label=${t("component.facts")}><${Facts} items=${facts} /></aside></div>
  </${Page}>`;
}

function Item({ name, kind, id }) {
  const state = useLoad(() => get(admin(name, id)), [name, id]);
  return html`<${LoadedPage} state=${state} title=${id} crumbs=${[{ href: to(name), text: t("page." + name) }]}>${(item) => html`<${Detail} key=${name + id} name=${name} kind=${kind} item=${item} reload=${state.reload} />`}</${LoadedPage}>`;
}

/** stateName returns the name of the state of a provider or a component. */
function stateName(item) {
  if (item.enabled === false) return "disabled";
  const key = { not_required: "ready", missing: "no_key" };
  return item.keyState ? key[item.keyState] || item.keyState : item.status || "enabled";
}

const stateOf = (item) => html`<${State} of=${stateName(item)} />`;

const removal = (name, kind) => ({
  text: t("action.delete"), title: (n) => t("component.delete_some", { n }), effect: t("component.delete_effect"),
  can: (item) => !kind.readOnly?.(item), run: (item) => call("DELETE", admin(name, kind.idOf(item))),
});

function List({ name, kind, place }) {
  const q = place.query.get("q") || "";
  const page = Number(place.query.get("page")) || 1;
  const type = place.query.get("type") || "";
  const state = useLoad(() => get(admin(name) + query({ q, page, type, page_size: pageSize })), [name, q, page, type]);
  const create = html`<a class="button primary" href=${to(name) + "?create=1"}>${t(name + ".create")}</a>`;
  return html`<${Page} title=${t("page." + name)} action=${canWrite() && create}>
    <p>${t(name + ".text")}</p>
    <div class="filters"><${Search} value=${q} />${kind.types && html`<label>${t("field.type")}<select value=${type} onChange=${(e) => setQuery({ type: e.target.value, page: "" })}><option value="">${t("list.all")}</option>
      ${kind.types.map((v) => html`<option value=${v} selected=${v === type}>${t("skill." + v)}</option>`)}</select></label>`}</div>
    <${Loaded} state=${state}>${(list) => (list.items.length ? html`<${Table} label=${t("page." + name)} rows=${list.items} total=${list.total} keyOf=${kind.idOf} href=${(i) => to(name, kind.idOf(i))} select=${canWrite() && { name: titleOf, actions: [removal(name, kind)], reload: state.reload }} columns=${[
      { text: t("field.name"), by: titleOf, cell: (i) => html`<strong>${titleOf(i)}</strong> ${i.name !== titleOf(i) && html`<code class="soft">${i.name}</code>`}` },
      ...kind.columns,
      { text: t("list.state"), by: (i) => t("state." + stateName(i)), cell: stateOf },
    ]} /><${Paging} page=${page} size=${pageSize} total=${list.total} />` : html`<${Empty} text=${q ? t("list.nothing") : t(name + ".none")}>${!q && canWrite() && create}</${Empty}>`)}</${Loaded}>
  </${Page}>`;
}

export function Component({ place }) {
  const [name, id] = place.segments;
  const kind = kinds[name];
  if (id) return html`<${Item} key=${name + id} name=${name} kind=${kind} id=${id} />`;
  if (place.query.get("create") === "1" && canWrite()) return kind.accept ? html`<${CreateByUpload} key=${name} name=${name} kind=${kind} />` : html`<${Create} key=${name} name=${name} kind=${kind} />`;
  return html`<${List} key=${name} name=${name} kind=${kind} place=${place} />`;
}
