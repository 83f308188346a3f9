// The pages before a session: sign-in, registration, first setup, and the change of a password that an admin set.
import { html, useEffect, useState } from "../lib/preact.js";
import { call, currentUser, enterAsOwn, get, isOver, query, signIn, signOut, signUp } from "../app/api.js";
import { base, currentPlace, to } from "../app/router.js";
import { dateTime, has, language, languages, t } from "../app/text.js";
import { Button, describe, Skeleton } from "../parts/basic.js";
import { confirm } from "../parts/dialog.js";
import { Field, useForm } from "../parts/form.js";

// Browsers do not send the fragment to a server. It is removed from the address and the history.
const fragment = new URLSearchParams(location.hash.slice(1));
const clear = () => location.hash && history.replaceState(null, "", location.pathname + location.search);

/** strength is an estimate from 0 to 4 for the meter. The hub decides. */
function strength(password) {
  const kinds = [/[a-z]/, /[A-Z]/, /[0-9]/, /[^A-Za-z0-9]/].filter((kind) => kind.test(password)).length;
  if (password.length < 8) return password ? 1 : 0;
  return Math.min(4, 1 + Math.floor(password.length / 8) + (kinds > 2 ? 1 : 0));
}

function Input({ form, name, label, help, type = "text", ...rest }) {
  const [shown, setShown] = useState(false);
  const secret = type === "password";
  return html`<${Field} label=${label} help=${help} error=${form.errorOf(name)}>${(a) => html`<div class="secret">
    <input ...${a} name=${name} type=${secret && shown ? "text" : type} value=${form.values[name] || ""} onInput=${(e) => form.set(name, e.target.value)} autocapitalize="none" spellcheck="false" ...${rest} />
    ${secret && html`<button type="button" class="button quiet small" aria-pressed=${shown ? "true" : "false"} onClick=${() => setShown(!shown)}>${shown ? t("signin.hide") : t("signin.show")}</button>`}
  </div>`}</${Field}>`;
}

/** NewPassword has a meter. */
function NewPassword({ form, name, label }) {
  const level = strength(form.values[name] || "");
  return html`<${Input} form=${form} name=${name} type="password" label=${label} help=${t("signin.password_rule")} autocomplete="new-password" required minlength="8" maxlength="128" />
    <div class="meter" role="meter" aria-label=${t("signin.strength")} aria-valuemin="0" aria-valuemax="4" aria-valuenow=${level} aria-valuetext=${t("strength." + level)}>
      ${[1, 2, 3, 4].map((n) => html`<span class=${n <= level ? "on" : ""}></span>`)}<span class="soft">${t("strength." + level)}</span></div>`;
}

function Box({ title, children }) {
  useEffect(() => { document.title = title + " - agenthost"; }, [title]);
  return html`<main class="box"><p class="brand">agenthost</p><h1>${title}</h1>${children}
    <p class="languages">${Object.entries(languages).map(([code, name]) => html`<button type="button" class="button quiet small" lang=${code} aria-pressed=${code === language() ? "true" : "false"}
      onClick=${() => { localStorage.setItem("language", code); location.reload(); }}>${name}</button>`)}</p></main>`;
}

function Credentials({ form, action, children }) {
  return html`<form ref=${form.form} onSubmit=${form.submit}>${children}
    <div class="error" role="alert">${form.fault && !Object.keys(form.fault.fields).length && describe(form.fault)}</div>
    <${Button} kind="primary" busy=${form.busy}>${action}</${Button}></form>`;
}

/** enter signs in, and asks before it replaces the session of another user. It returns null if the user keeps that session, which is then shown. */
async function enter(credential) {
  try {
    return await signIn(credential);
  } catch (fault) {
    if (!fault.data.session) throw fault;
    const { session, login } = fault.data;
    const names = { user: session.username, org: session.org_id, next: login.username, other: login.org_id };
    if (await confirm({ title: t("signin.replace_title"), text: t("signin.replace", names), action: t("signin.replace_action"), danger: true })) return signIn({ ...credential, replace: true });
    if (credential.refresh_token) await call("POST", "/auth/logout", credential); // the session of the new account
    location.replace(to());
    return null;
  }
}

function Password({ onDone }) {
  const form = useForm({ username: "", password: "" }, async (v) => {
    given = v.password;
    const login = await enter(v).catch((fault) => { given = ""; throw fault; });
    if (!login || login.must_change_password) return;
    given = "";
    onDone();
  }, { guarded: false });
  return html`<${Box} title=${t("signin.title")}><${Credentials} form=${form} action=${t("signin.action")}>
    <${Input} form=${form} name="username" label=${t("signin.username")} autocomplete="username" required autofocus />
    <${Input} form=${form} name="password" type="password" label=${t("signin.password")} autocomplete="current-password" required />
  </${Credentials}><p class="soft">${t("signin.no_account")}</p></${Box}>`;
}

let given = ""; // the password that an admin set, which the change needs

function ChangePassword({ onDone }) {
  const user = currentUser();
  const form = useForm({ old_password: given, new_password: "" }, async (v) => {
    await call("POST", "/auth/change-password", v);
    given = "";
    onDone();
  }, { guarded: false });
  return html`<${Box} title=${t("signin.change_title")}><p>${t("signin.change_text")}</p><${Credentials} form=${form} action=${t("signin.change_action")}>
    <input hidden name="username" autocomplete="username" value=${user.username} readonly />
    ${!given && html`<${Input} form=${form} name="old_password" type="password" label=${t("signin.old_password")} autocomplete="current-password" required />`}
    <${NewPassword} form=${form} name="new_password" label=${t("signin.new_password")} />
  </${Credentials}><${Button} kind="quiet" action=${signOut}>${t("frame.sign_out")}</${Button}></${Box}>`;
}

function Provider({ org, fault }) {
  const form = useForm({ org: org || "" }, async (v) => {
    await get("/auth/org-check" + query({ org: v.org.trim() }));
    const here = currentPlace().path;
    location.assign(base + "/auth/login" + query({ org: v.org.trim(), return_to: /^\/console\/[A-Za-z0-9/_-]+$/.test(here) ? here.replace(/\/$/, "") : "/console/login" }));
  }, { guarded: false });
  return html`<${Box} title=${t("signin.title")}><p>${t("signin.provider")}</p>
    ${fault && html`<p class="error" role="alert">${has("signin.failed." + fault) ? t("signin.failed." + fault) : t("signin.failed.other", { code: fault })}</p>`}
    <${Credentials} form=${form} action=${t("signin.continue")}>
    <${Input} form=${form} name="org" label=${t("signin.org")} help=${t("signin.org_help")} autocomplete="organization" maxlength="63" autofocus />
  </${Credentials}></${Box}>`;
}

function Register({ invite, setup, role, until, onDone }) {
  const form = useForm({ username: setup ? "admin" : "", display_name: "", password: "" }, async (v) => {
    const account = { username: v.username, password: v.password };
    if (v.display_name) account.display_name = v.display_name;
    const credential = await signUp(setup ? "/auth/setup" : "/auth/register", setup ? { ...account, setup_token: setup } : { ...account, token: invite });
    if (await enter(credential)) onDone();
  }, { guarded: false });
  return html`<${Box} title=${t("signin.welcome")}><p>${setup ? t("signin.first_account") : t("signin.invited", { role: t("role." + role), until: dateTime(until) })}</p>
    <${Credentials} form=${form} action=${t("signin.create")}>
      <${Input} form=${form} name="username" label=${t("signin.username")} help=${t("signin.username_rule")} autocomplete="username" maxlength="64" required />
      <${Input} form=${form} name="display_name" label=${t("signin.display_name")} autocomplete="name" maxlength="128" autocapitalize="words" />
      <${NewPassword} form=${form} name="password" label=${t("signin.password")} />
    </${Credentials}>
    <p class="soft"><a href=${to("login")}>${t("signin.have_account")}</a></p></${Box}>`;
}

/** Program is for users of the program that contains the hub. Others may have an account of the hub. */
const Program = ({ retry, account }) => html`<${Box} title=${t("signin.title")}><p>${t("signin.program")}</p><${Button} kind="primary" action=${retry}>${t("signin.continue")}</${Button}>
  <p><button type="button" class="button quiet small" onClick=${account}>${t("signin.have_account")}</button></p></${Box}>`;

const Notice = ({ text, retry }) => html`<${Box} title=${t("signin.welcome")}><p role="alert">${text}</p>${retry ? html`<${Button} action=${retry}>${t("action.retry")}</${Button}>` : html`<p><a href=${to("login")}>${t("signin.action")}</a></p>`}</${Box}>`;

/** SignIn decides which of the pages is shown. */
export function SignIn({ mustChange, onDone }) {
  const place = currentPlace();
  const registers = place.segments[0] === "register";
  const [view, setView] = useState(null);
  const decide = async () => {
    const invite = registers ? fragment.get("token") || "" : "";
    const setup = registers ? fragment.get("setup") || "" : "";
    const code = fragment.get("code");
    const fault = fragment.get("error");
    for (const name of ["token", "setup", "code", "error"]) fragment.delete(name);
    clear();
    if (code) {
      if (await enter({ code })) onDone();
      return;
    }
    const mode = await get("/auth/mode");
    const notice = (text) => setView(html`<${Notice} text=${text} />`);
    const form = mode.mode === "external" ? html`<${Provider} org=${mode.default_org} fault=${fault} />` : html`<${Password} onDone=${onDone} />`;
    if (mode.program && !registers && !fault) {
      const enter = () => enterAsOwn().then(onDone, (error) => {
        if (!isOver(error)) throw error;
        setView(html`<${Program} retry=${enter} account=${() => setView(form)} />`);
      });
      await enter();
    } else if (mode.mode === "external") {
      if (registers) notice(t("signin.register_external"));
      else setView(form);
    } else if (setup && mode.setup_required) setView(html`<${Register} setup=${setup} onDone=${onDone} />`);
    else if (setup) notice(t("signin.is_set_up"));
    else if (mode.setup_required) setView(html`<${Notice} text=${t("signin.no_user")} retry=${start} />`);
    else if (registers && !invite) notice(t("signin.no_invite"));
    else if (registers) {
      const found = await get("/auth/invite/" + encodeURIComponent(invite)).catch((error) => {
        // A token with characters of a path is no path of the hub.
        if (["invite_invalid", "not_found"].includes(error.code)) return null;
        throw error;
      });
      if (found) setView(html`<${Register} invite=${invite} role=${found.role} until=${found.expires_at} onDone=${onDone} />`);
      else notice(t("signin.invite_invalid"));
    } else setView(form);
  };
  const start = () => decide().catch((error) => setView(html`<${Box} title=${t("signin.title")}><p class="error" role="alert">${describe(error)}</p>
    <${Button} action=${start}>${t("action.retry")}</${Button}></${Box}>`));
  useEffect(() => { if (!mustChange) start(); }, [registers, mustChange]);
  if (mustChange) return html`<${ChangePassword} onDone=${onDone} />`;
  return view || html`<${Box} title=${t("signin.title")}><${Skeleton} /></${Box}>`;
}
