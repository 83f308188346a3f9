// The own account: sessions, CLI tokens and password.
import { html, useState } from "../lib/preact.js";
import { call, canWrite, currentUser, get } from "../app/api.js";
import { to } from "../app/router.js";
import { t } from "../app/text.js";
import { Badge, Button, Copy, Empty, Facts, Loaded, Page, Tabs, Time, useLoad } from "../parts/basic.js";
import { confirm, toast } from "../parts/dialog.js";
import { Form, NumberField, TextField, useForm } from "../parts/form.js";
import { Table } from "../parts/table.js";

/** Secret shows a value that is displayed once. */
export const Secret = ({ text, help }) => html`<div class="note info" role="status"><p>${help}</p><output class="lines wrap">${text}</output><div class="buttons"><${Copy} text=${text} /></div></div>`;

const browsers = [["Edg/", "Edge"], ["OPR/", "Opera"], ["Chrome/", "Chrome"], ["Firefox/", "Firefox"], ["Version/", "Safari"]];
const systems = [["Windows", "Windows"], ["Android", "Android"], ["iPhone", "iPhone"], ["iPad", "iPad"], ["Mac OS X", "macOS"], ["CrOS", "ChromeOS"], ["Linux", "Linux"]];

/** programOf returns the names of the browser and the system of a User-Agent header, or the header of another program. */
export function programOf(header) {
  const nameOf = (names) => names.find(([mark]) => header.includes(mark))?.[1];
  const [browser, system] = [nameOf(browsers), nameOf(systems)];
  return header.startsWith("Mozilla/") && browser && system ? t("account.browser_on", { browser, system }) : header || "-";
}

const columns = (revoke, text) => [
  { text: t("account.session"), by: (s) => programOf(s.userAgent), cell: (s) => html`<span title=${s.userAgent}>${programOf(s.userAgent)} ${s.current && html`<${Badge} kind="info">${t("account.this")}</${Badge}>`}</span>` },
  { text: t("account.address"), by: (s) => s.remoteIp, cell: (s) => html`<code>${s.remoteIp}</code>` },
  { text: t("account.used"), by: (s) => s.lastUsedAt, cell: (s) => html`<${Time} at=${s.lastUsedAt} />` },
  { text: "", class: "end", cell: (s) => !s.current && revoke && html`<${Button} kind="small" action=${() => revoke(s)}>${text}</${Button}>` },
];

export function SessionTable({ items, revoke }) {
  return html`<${Table} label=${t("account.sessions")} columns=${columns(revoke, t("account.end"))} rows=${items} param="sessions" />`;
}

export function TokenTable({ items, revoke }) {
  return html`<${Table} label=${t("account.tokens")} rows=${items} param="tokens" columns=${[
    { text: t("account.token"), by: (k) => k.name, cell: (k) => html`<span>${k.name} <code class="soft">${k.prefix}…</code></span>` },
    { text: t("account.expires"), by: (k) => k.expiresAt, cell: (k) => html`<${Time} at=${k.expiresAt} />` },
    { text: t("account.used"), by: (k) => k.lastUsedAt, cell: (k) => html`<${Time} at=${k.lastUsedAt} />` },
    { text: "", class: "end", cell: (k) => html`<${Button} kind="small danger" action=${() => revoke(k)}>${t("account.revoke")}</${Button}>` },
  ]} />`;
}

function Sessions() {
  const state = useLoad(() => get("/auth/sessions?page_size=100"));
  const revoke = async (s) => {
    await call("DELETE", "/auth/sessions/" + s.id);
    toast(t("account.ended"));
    await state.reload();
  };
  return html`<${Loaded} state=${state}>${(list) => html`<${SessionTable} items=${list.items} revoke=${revoke} />`}</${Loaded}>`;
}

function Tokens() {
  const state = useLoad(() => get("/api/v1/cli/tokens?page_size=100"));
  const [issued, setIssued] = useState(null);
  const form = useForm({ name: "", expiresInDays: 90 }, async (v) => {
    setIssued(await call("POST", "/api/v1/cli/issue-token", v));
    await state.reload();
  }, { guarded: false });
  const revoke = async (k) => {
    if (!(await confirm({ title: t("account.revoke_title", { name: k.name }), text: t("account.revoke_text"), action: t("account.revoke"), danger: true }))) return;
    await call("DELETE", "/api/v1/cli/tokens/" + k.id);
    await state.reload();
  };
  return html`<p>${t("account.tokens_text")}</p>
    ${issued && html`<${Secret} text=${issued.token} help=${t("account.store")} />`}
    <${Loaded} state=${state}>${(list) => (list.items.length ? html`<${TokenTable} items=${list.items} revoke=${revoke} />` : html`<${Empty} text=${t("account.no_tokens")} />`)}</${Loaded}>
    <h2>${t("account.new_token")}</h2>
    <${Form} form=${form} action=${t("account.create_token")} names=${["name", "expiresInDays"]} always>
      <${TextField} form=${form} name="name" label=${t("account.token_name")} help=${t("account.token_name_help")} maxlength="64" required />
      <${NumberField} form=${form} name="expiresInDays" label=${t("account.days")} help=${t("account.days_help")} min="1" max="365" />
    </${Form}>`;
}

function Password() {
  const form = useForm({ old_password: "", new_password: "" }, async (v) => {
    await call("POST", "/auth/change-password", v);
    toast(t("account.password_changed"));
  }, { guarded: false });
  return html`<p>${t("account.password_text")}</p><${Form} form=${form} action=${t("signin.change_action")} names=${["old_password", "new_password"]}>
    <input hidden name="username" autocomplete="username" value=${currentUser().username} readonly />
    <${TextField} form=${form} name="old_password" label=${t("signin.old_password")} type="password" autocomplete="current-password" required />
    <${TextField} form=${form} name="new_password" label=${t("signin.new_password")} help=${t("signin.password_rule")} type="password" autocomplete="new-password" minlength="8" maxlength="128" required />
  </${Form}>`;
}

export function Account({ place }) {
  const user = currentUser();
  const info = useLoad(() => get("/auth/userinfo"));
  const builtin = info.data && info.data.auth_mode === "builtin";
  const part = place.segments[1] || "sessions";
  const parts = ["sessions", canWrite() && "tokens", builtin && "password"].filter(Boolean);
  return html`<${Page} title=${t("page.account")} tabs=${html`<${Tabs} label=${t("page.account")} items=${parts.map((p) => ({ href: p === "sessions" ? to("account") : to("account", p), text: t("account.tab." + p), current: p === part }))} />`}>
    ${part === "sessions" && html`<${Facts} items=${[[t("signin.username"), user.username], [t("account.role"), t("role." + user.role)], [t("signin.org"), user.tenant_id]]} /><h2>${t("account.sessions")}</h2><${Sessions} />`}
    ${part === "tokens" && canWrite() && html`<${Tokens} />`}
    ${part === "password" && builtin && html`<${Password} />`}
  </${Page}>`;
}
