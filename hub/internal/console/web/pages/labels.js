// The labels of generated content (GB 45438-2025), with a preview.
import { html, useState } from "../lib/preact.js";
import { admin, call, get } from "../app/api.js";
import { t } from "../app/text.js";
import { Badge, Button, Facts, Loaded, Page, Time, useLoad } from "../parts/basic.js";
import { confirm, toast } from "../parts/dialog.js";
import { AreaField, CheckField, Field, Form, SelectField, TextField, useForm } from "../parts/form.js";
import { Table } from "../parts/table.js";

const valuesOf = (c) => ({
  enabled: Boolean(c.enabled), companyName: c.companyName || "", uscc: c.uscc || "", contentProducer: c.contentProducer || "", label: c.label || "1", produceIdPrefix: c.produceIdPrefix || "", propagator: c.propagator || "",
  mode: (c.explicit && c.explicit.mode) || "hint", text: (c.explicit && c.explicit.text) || "", signing: Boolean(c.signing && c.signing.enabled),
});
const bodyOf = ({ mode, text, signing, ...rest }) => ({ ...rest, explicit: { mode, text }, signing: { enabled: signing } });

/** Preview shows an answer with its label as users see it. */
function Preview({ v }) {
  const notice = v.text && v.mode !== "off" && html`<p class="notice">${v.text}</p>`;
  const label = { Label: v.label, ContentProducer: v.contentProducer, ProduceID: v.produceIdPrefix + "…", ReservedCode1: v.signing ? "v1.…" : "", ContentPropagator: v.propagator || v.contentProducer, PropagateID: v.produceIdPrefix + "…", ReservedCode2: "" };
  return html`<section class="panel" aria-label=${t("aigc.preview")}><h2>${t("aigc.preview")}</h2>
    ${v.enabled ? html`${(v.mode === "prepend" || v.mode === "hint") && notice}<p>${t("aigc.sample")}</p>${v.mode === "append" && notice}
      <h3>${t("aigc.implicit")}</h3><pre class="lines wrap" tabindex="0">${JSON.stringify(label, null, 2)}</pre>` : html`<p class="soft">${t("aigc.off")}</p>`}</section>`;
}

function Verify() {
  const [text, setText] = useState("");
  const [result, setResult] = useState(null);
  const verify = async () => {
    let label;
    try {
      label = JSON.parse(text);
    } catch {
      setResult({ valid: false, reason: t("form.not_json") });
      return;
    }
    setResult(await call("POST", admin("aigc", "verify"), label));
  };
  return html`<h2>${t("aigc.verify")}</h2><${Field} label=${t("aigc.verify_label")}>${(a) => html`<textarea ...${a} class="code" rows="5" spellcheck="false" value=${text} onInput=${(e) => setText(e.target.value)}></textarea>`}</${Field}>
    <div class="buttons"><${Button} action=${verify} disabled=${!text.trim()}>${t("aigc.verify")}</${Button}>
    ${result && html`<span role="status"><${Badge} kind=${"state " + (result.valid ? "ok" : "bad")}>${result.valid ? t("aigc.valid") : t("aigc.invalid")}</${Badge}> ${result.reason}</span>`}</div>`;
}

function Config({ config, reload }) {
  const form = useForm(valuesOf(config), async (v) => {
    await call("PUT", admin("aigc", "config"), bodyOf(v));
    toast(t("form.saved"));
    await reload();
  });
  const rotate = async () => {
    if (!(await confirm({ title: t("aigc.rotate"), text: t("aigc.rotate_text"), action: t("aigc.rotate") }))) return;
    await call("POST", admin("aigc", "config", "rotate-key"));
    await reload();
  };
  const remove = async () => {
    if (!(await confirm({ title: t("aigc.delete"), text: t("aigc.delete_text"), action: t("action.delete"), danger: true }))) return;
    await call("DELETE", admin("aigc", "config"));
    form.reset(valuesOf({}));
    await reload();
  };
  const f = { form };
  const keys = (config.signing && config.signing.keys) || [];
  return html`<div class="panels"><div>
      <${Form} form=${form} action=${t("action.save")} names=${["enabled", "companyName", "uscc", "contentProducer", "label", "produceIdPrefix", "propagator", "explicit", "signing"]}>
        <${CheckField} ...${f} name="enabled" label=${t("aigc.enabled")} />
        <${TextField} ...${f} name="companyName" label=${t("aigc.companyName")} maxlength="128" />
        <${TextField} ...${f} name="uscc" label=${t("aigc.uscc")} maxlength="18" spellcheck="false" />
        <${TextField} ...${f} name="contentProducer" label=${t("aigc.contentProducer")} help=${t("aigc.contentProducer_help")} maxlength="27" spellcheck="false" />
        <${SelectField} ...${f} name="label" label=${t("aigc.label")} options=${["1", "2", "3"].map((value) => ({ value, text: t("aigc.label." + value) }))} />
        <${TextField} ...${f} name="produceIdPrefix" label=${t("aigc.prefix")} maxlength="64" spellcheck="false" />
        <${TextField} ...${f} name="propagator" label=${t("aigc.propagator")} maxlength="27" spellcheck="false" />
        <${SelectField} ...${f} name="mode" label=${t("aigc.mode")} options=${["hint", "append", "prepend", "off"].map((value) => ({ value, text: t("aigc.mode." + value) }))} />
        <${AreaField} ...${f} name="text" label=${t("aigc.text")} help=${t("aigc.text_help")} rows="2" maxlength="200" />
        <${CheckField} ...${f} name="signing" label=${t("aigc.signing")} />
      </${Form}></div>
    <div><${Preview} v=${form.values} />
      ${keys.length > 0 && html`<h2>${t("aigc.keys")}</h2><${Table} label=${t("aigc.keys")} rows=${keys} keyOf=${(k) => k.kid} columns=${[{ text: "ID", cell: (k) => html`<code>${k.kid}</code>` }, { text: t("list.state"), cell: (k) => html`<${Badge} kind=${k.status === "active" ? "ok" : ""}>${t("aigc.key." + k.status)}</${Badge}>` }, { text: t("list.created"), cell: (k) => html`<${Time} at=${k.createdAt} />` }]} />
        <div class="buttons"><${Button} action=${rotate}>${t("aigc.rotate")}</${Button}></div>`}
      <${Verify} />
      ${config.updatedAt && html`<h2>${t("aigc.delete")}</h2><${Facts} items=${[[t("list.updated"), html`<${Time} at=${config.updatedAt} />`]]} /><${Button} kind="danger" action=${remove}>${t("action.delete")}</${Button}>`}</div></div>`;
}

export function Labels() {
  const state = useLoad(() => get(admin("aigc", "config")));
  return html`<${Page} title=${t("page.labels")}><p>${t("aigc.intro")}</p><${Loaded} state=${state}>${(config) => html`<${Config} config=${config} reload=${state.reload} />`}</${Loaded}></${Page}>`;
}
