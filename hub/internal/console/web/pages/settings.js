// What the operator of the hub has set, for admins. It is changed in the configuration of the hub.
import { html } from "../lib/preact.js";
import { admin, get } from "../app/api.js";
import { to } from "../app/router.js";
import { number, t } from "../app/text.js";
import { Copy, Facts, Loaded, Page, useLoad } from "../parts/basic.js";

const databases = { sqlite: "SQLite", postgres: "PostgreSQL" };

const Address = ({ of }) => html`<code class="long">${of}</code> <${Copy} text=${of} />`;
const Section = ({ name, items }) => html`<section class="panel" aria-labelledby=${name}><h2 id=${name}>${t("settings." + name)}</h2><${Facts} items=${items.map(([key, value]) => [t("settings." + key), value])} /></section>`;

const rateOf = (n) => (n ? t("settings.per_minute", { n }) : t("settings.unlimited"));
const retentionOf = (n) => (n ? t("settings.days", { n }) : t("settings.forever"));

export function Settings() {
  const state = useLoad(async () => {
    const [settings, users, labels] = await Promise.all([get(admin("settings")), get(admin("users") + "?page_size=1"), get(admin("aigc", "config"))]);
    return { ...settings, users: users.total, labels: Boolean(labels.enabled) };
  });
  return html`<${Page} title=${t("page.settings")}><p>${t("settings.text")}</p><${Loaded} state=${state}>${(s) => html`<div class="panels"><div>
      <${Section} name="organization" items=${[["name", html`<strong>${s.organization}</strong>`], ["sign_in", t("users.source." + s.authMode)],
        ["users", html`<a href=${to("users")}>${number(s.users)}</a>`], ["labels", html`<a href=${to("labels")}>${t(s.labels ? "settings.labels_on" : "settings.labels_off")}</a>`]]} />
      <${Section} name="limits" items=${[["answers_user", number(s.limits.answersPerUser)], ["answers_agent", number(s.limits.answersPerAgent)],
        ["requests_user", rateOf(s.limits.requestsPerUser)], ["requests_address", rateOf(s.limits.requestsPerAddress)],
        ["audit_days", retentionOf(s.limits.auditDays)], ["usage_days", retentionOf(s.limits.usageDays)]]} /></div><div>
      <${Section} name="deployer" items=${[["kind", s.deployer === "none" ? t("settings.no_deployer") : html`<code>${s.deployer}</code>`],
        ...["maxMemory", "maxCpu", "maxProcesses", "maxReplicas"].map((name) => [name, s.limits[name]])]} />
      <${Section} name="gateway" items=${[["address", html`<${Address} of=${s.publicUrl} />`], ["agents_at", html`<${Address} of=${s.gatewayUrl} />`], ["routes", t(s.gatewayManaged ? "settings.routes_managed" : s.gatewayUrl === s.publicUrl + "/runtime" ? "settings.routes_hub" : "settings.routes_other")]]} />
      <${Section} name="versions" items=${[["hub", html`<code>${s.version}</code>`], ["go", html`<code>${s.goVersion}</code>`], ["database", databases[s.database] || s.database]]} />
    </div></div>`}</${Loaded}></${Page}>`;
}
