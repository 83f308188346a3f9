// Users and invitations, for admins.
import { html, useState } from "../lib/preact.js";
import { admin, call, currentUser, get } from "../app/api.js";
import { go, setQuery, to } from "../app/router.js";
import { t } from "../app/text.js";
import { Button, Copy, Empty, Facts, Loaded, LoadedPage, Page, Paging, State, Tabs, Time, useLoad } from "../parts/basic.js";
import { confirm, Dialog, open, toast } from "../parts/dialog.js";
import { Form, SelectField, TextField, useForm } from "../parts/form.js";
import { Table } from "../parts/table.js";
import { Secret, SessionTable, TokenTable } from "./account.js";

const roles = () => ["member", "maintainer", "admin"].map((value) => ({ value, text: t("role." + value) }));
const roleHelp = () => t("users.role_help");

function NewUser({ close }) {
  const form = useForm({ username: "", displayName: "", role: "member", password: "" }, async (v) => {
    const created = await call("POST", admin("users"), v);
    close(created);
  }, { guarded: false });
  return html`<${Dialog} title=${t("users.create")} onClose=${() => close(null)}>
    <${Form} form=${form} action=${t("users.create")} cancel=${() => close(null)} names=${["username", "displayName", "role", "password"]} always>
      <${TextField} form=${form} name="username" label=${t("signin.username")} help=${t("signin.username_rule")} maxlength="64" required />
      <${TextField} form=${form} name="displayName" label=${t("signin.display_name")} maxlength="128" />
      <${SelectField} form=${form} name="role" label=${t("account.role")} help=${roleHelp()} options=${roles()} />
      <${TextField} form=${form} name="password" label=${t("users.first_password")} help=${t("users.first_password_help")} minlength="8" maxlength="128" required />
    </${Form}></${Dialog}>`;
}

function NewInvite({ close }) {
  const [made, setMade] = useState(null);
  const form = useForm({ role: "member", note: "" }, async (v) => setMade(await call("POST", admin("invites"), v)), { guarded: false });
  return html`<${Dialog} title=${t("invites.create")} onClose=${() => close(made)}>
    ${made ? html`<${Secret} text=${made.url} help=${t("invites.send")} /><div class="buttons"><${Button} kind="primary" action=${() => close(made)}>${t("action.close")}</${Button}></div>`
    : html`<${Form} form=${form} action=${t("invites.create")} cancel=${() => close(null)} names=${["role", "note"]} always>
      <p>${t("invites.text")}</p>
      <${SelectField} form=${form} name="role" label=${t("account.role")} help=${roleHelp()} options=${roles()} />
      <${TextField} form=${form} name="note" label=${t("invites.note")} maxlength="500" />
    </${Form}>`}</${Dialog}>`;
}

const revocation = () => ({
  text: t("account.revoke"), title: (n) => t("invites.revoke_some", { n }), effect: t("invites.revoke_effect"),
  can: (i) => i.status === "pending", run: (i) => call("DELETE", admin("invites", i.id)),
});

function Invites({ page }) {
  const state = useLoad(() => get(admin("invites") + "?page_size=100&page=" + page), [page]);
  const revoke = async (i) => {
    await call("DELETE", admin("invites", i.id));
    toast(t("invites.revoked"));
    await state.reload();
  };
  return { reload: state.reload, view: html`<${Loaded} state=${state}>${(list) => (list.items.length ? html`<${Table} label=${t("users.tab.invites")} rows=${list.items} total=${list.total} select=${{ name: (i) => i.note || t("role." + i.role), actions: [revocation()], reload: state.reload }} columns=${[
    { text: t("account.role"), by: (i) => t("role." + i.role), cell: (i) => t("role." + i.role) },
    { text: t("invites.note"), by: (i) => i.note, cell: (i) => i.note || "" },
    { text: t("list.state"), by: (i) => t("state." + i.status), cell: (i) => html`<${State} of=${i.status} />` },
    { text: t("invites.by"), by: (i) => i.createdBy, cell: (i) => i.createdBy },
    { text: t("account.expires"), by: (i) => i.expiresAt, cell: (i) => html`<${Time} at=${i.expiresAt} />` },
    { text: "", class: "end", cell: (i) => i.status === "pending" && html`<${Button} kind="small danger" action=${() => revoke(i)}>${t("account.revoke")}</${Button}>` },
  ]} /><${Paging} page=${page} size=${100} total=${list.total} />` : html`<${Empty} text=${t("invites.none")} />`)}</${Loaded}>` };
}

/** removal deletes users other than the one who is signed in. */
const removal = () => ({
  text: t("action.delete"), title: (n) => t("users.delete_some", { n }), effect: t("users.delete_effect"),
  can: (u) => u.id !== currentUser().id, run: (u) => call("DELETE", admin("users", u.id)),
});

function UserList({ page }) {
  const state = useLoad(() => get(admin("users") + "?page_size=100&page=" + page), [page]);
  return { reload: state.reload, view: html`<${Loaded} state=${state}>${(list) => html`<${Table} label=${t("page.users")} rows=${list.items} total=${list.total} href=${(u) => to("users", u.id)} select=${{ name: (u) => u.username, actions: [removal()], reload: state.reload }} columns=${[
    { text: t("signin.username"), by: (u) => u.username, cell: (u) => html`<strong>${u.username}</strong>` },
    { text: t("users.name"), by: (u) => u.displayName, cell: (u) => u.displayName },
    { text: t("account.role"), by: (u) => t("role." + u.role), cell: (u) => t("role." + u.role) },
    { text: t("list.state"), by: (u) => t("state." + u.status), cell: (u) => html`<${State} of=${u.status} />` },
    { text: t("users.last_login"), by: (u) => u.lastLoginAt, cell: (u) => html`<${Time} at=${u.lastLoginAt} />` },
  ]} /><${Paging} page=${page} size=${100} total=${list.total} />`}</${Loaded}>` };
}

export function Users({ place }) {
  const invites = place.query.get("show") === "invites";
  const page = Number(place.query.get("page")) || 1;
  const mode = useLoad(() => get("/auth/mode"));
  const external = mode.data && mode.data.mode === "external";
  const [version, setVersion] = useState(0);
  const create = async () => {
    const made = await open((close) => html`<${NewUser} close=${close} />`);
    if (made) go(to("users", made.id));
  };
  const invite = async () => {
    await open((close) => html`<${NewInvite} close=${close} />`);
    setVersion((v) => v + 1);
    if (!invites) setQuery({ show: "invites", page: "" }, false);
  };
  const List = invites ? Invites : UserList;
  return html`<${Page} title=${t("page.users")} action=${!external && html`<${Button} action=${create}>${t("users.create")}</${Button}><${Button} kind="primary" action=${invite}>${t("invites.create")}</${Button}>`}
    tabs=${html`<${Tabs} label=${t("page.users")} items=${[
      { href: to("users"), text: t("users.tab.users"), current: !invites }, { href: to("users") + "?show=invites", text: t("users.tab.invites"), current: invites }]} />`}>
    <${Shown} key=${invites + " " + version} list=${List} page=${page} /></${Page}>`;
}
const Shown = ({ list, page }) => list({ page }).view;

function Detail({ user, reload }) {
  const self = currentUser().id === user.id;
  const external = user.authSource === "external";
  const sessions = useLoad(() => get(admin("users", user.id, "sessions") + "?page_size=100"), [user.id]);
  const tokens = useLoad(() => get(admin("users", user.id, "tokens") + "?page_size=100"), [user.id]);
  const [given, setGiven] = useState("");
  const form = useForm({ displayName: user.displayName, role: user.role }, async (v) => {
    const changed = Object.fromEntries(Object.entries(v).filter(([name, value]) => value !== user[name]));
    await call("PATCH", admin("users", user.id), changed);
    toast(t("form.saved"));
    await reload();
  });
  const setStatus = async (status) => {
    if (status === "disabled" && !(await confirm({ title: t("users.disable_title", { name: user.username }), text: t("users.disable_text"), action: t("users.disable"), danger: true }))) return;
    await call("PATCH", admin("users", user.id), { status });
    await Promise.all([reload(), sessions.reload()]);
  };
  const reset = async () => {
    if (!(await confirm({ title: t("users.reset_title", { name: user.username }), text: t("users.reset_text"), action: t("users.reset"), danger: true }))) return;
    setGiven((await call("POST", admin("users", user.id, "reset-password"))).password);
    await Promise.all([sessions.reload(), tokens.reload()]);
  };
  const remove = async () => {
    if (!(await confirm({ title: t("users.delete_title", { name: user.username }), text: t("users.delete_text"), action: t("action.delete"), danger: true, name: user.username }))) return;
    await call("DELETE", admin("users", user.id));
    go(to("users"), { force: true });
  };
  const end = async () => {
    await call("DELETE", admin("users", user.id, "sessions"));
    await sessions.reload();
  };
  const revoke = async (k) => {
    await call("DELETE", admin("users", user.id, "tokens", k.id));
    await tokens.reload();
  };
  return html`<${Page} title=${user.username} crumbs=${[{ href: to("users"), text: t("page.users") }]} action=${!self && html`
      ${user.status === "active" ? html`<${Button} action=${() => setStatus("disabled")}>${t("users.disable")}</${Button}>` : html`<${Button} action=${() => setStatus("active")}>${t("users.enable")}</${Button}>`}
      <${Button} kind="danger" action=${remove}>${t("action.delete")}</${Button}>`}>
    ${given && html`<${Secret} text=${given} help=${t("users.reset_done")} />`}
    <div class="split"><div>
    <h2>${t("users.profile")}</h2>
    <${Form} form=${form} action=${t("action.save")} names=${["displayName", "role"]}>
      <${TextField} form=${form} name="displayName" label=${t("users.name")} maxlength="128" required />
      <${SelectField} form=${form} name="role" label=${t("account.role")} help=${roleHelp()} options=${roles()} />
    </${Form}>
    ${!external && html`<h2>${t("signin.password")}</h2><p>${t("users.reset_text")}</p><${Button} kind="danger" action=${reset}>${t("users.reset")}</${Button}>`}
    </div><aside aria-label=${t("component.facts")}><${Facts} items=${[[t("list.state"), html`<${State} of=${user.status} />`], [t("users.source"), t("users.source." + user.authSource)], [t("users.email"), user.email],
      [t("users.groups"), (user.groups || []).join(", ")], [t("users.last_login"), html`<${Time} at=${user.lastLoginAt} />`], [t("list.created"), html`<${Time} at=${user.createdAt} />`], ["ID", html`<${Copy} text=${user.id} />`]]} /><p><a href=${to("chats") + "?user=" + encodeURIComponent(user.id)}>${t("chats.of_user")}</a></p></aside></div>
    <h2>${t("account.sessions")}</h2>
    <${Loaded} state=${sessions}>${(list) => (list.items.length ? html`<${SessionTable} items=${list.items} /><div class="buttons"><${Button} kind="danger" action=${end}>${t("users.end_sessions")}</${Button}></div>` : html`<p class="soft">${t("users.no_sessions")}</p>`)}</${Loaded}>
    <h2>${t("account.tokens")}</h2>
    <${Loaded} state=${tokens}>${(list) => (list.items.length ? html`<${TokenTable} items=${list.items} revoke=${revoke} />` : html`<p class="soft">${t("account.no_tokens")}</p>`)}</${Loaded}>
  </${Page}>`;
}

export function User({ place }) {
  const id = place.segments[1];
  const state = useLoad(() => get(admin("users", id)), [id]);
  return html`<${LoadedPage} state=${state} title=${t("audit.user")} crumbs=${[{ href: to("users"), text: t("page.users") }]}>${(user) => html`<${Detail} key=${user.id} user=${user} reload=${state.reload} />`}</${LoadedPage}>`;
}
