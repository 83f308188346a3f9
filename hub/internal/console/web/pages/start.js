// The first page: three steps that tick themselves, or the chats.
import { html, useEffect } from "../lib/preact.js";
import { admin, call, canWrite, get } from "../app/api.js";
import { currentPlace, go, to } from "../app/router.js";
import { t } from "../app/text.js";
import { Button, Loaded, Page, useLoad } from "../parts/basic.js";

/** steps reports what a new hub lacks. */
async function steps() {
  const [providers, agents] = await Promise.all([get(admin("providers") + "?page_size=100"), get(admin("agents") + "?page_size=100")]);
  const agent = agents.items.find((a) => a.isDefault) || agents.items[0];
  const chats = agent ? await get(admin("chat", "sessions") + "?page_size=1") : { total: 0 };
  const deployment = agent ? await get(admin("agents", agent.name, "deploy")) : null;
  return { agent, runs: Boolean(deployment && deployment.servingRevision > 0), provider: providers.items.some((p) => p.hasKey && !p.shared) || agents.total > 0, chats: chats.total };
}

const Step = ({ n, done, title, text, children }) => html`<li class=${done ? "done" : ""}>
  <span class="mark" aria-hidden="true">${done ? "✓" : n}</span>
  <div><h2>${title}${done && html`<span class="hidden"> ${t("start.done")}</span>`}</h2>${!done && html`<p>${text}</p>`}<div class="buttons">${children}</div></div></li>`;

/** demo makes an agent with the demo model, which needs no key, and deploys it. */
async function demo() {
  await call("POST", admin("agents"), { name: "demo", title: t("start.demo_title"), description: t("start.demo_text"), providerId: "demo", model: "demo" });
  await call("POST", admin("agents", "demo", "deploy"), {});
  go(to("chat", "demo"));
}

export function Start() {
  const state = useLoad(canWrite() ? steps : async () => null);
  const settled = !state.loading && (state.data === null ? !state.fault : state.data.chats > 0);
  useEffect(() => { if (settled && ["", "login", "register"].includes(currentPlace().segments[0] || "")) go(to("chat"), { replace: true, force: true }); }, [settled]);
  if (settled) return null;
  return html`<${Page} title=${t("start.title")}><${Loaded} state=${state}>${(s) => html`<ol class="steps">
    <${Step} n="1" done=${s.provider} title=${t("start.provider")} text=${t("start.provider_text")}>
      ${!s.provider && html`<a class="button primary" href=${to("providers") + "?create=1"}>${t("start.provider_action")}</a><${Button} action=${demo}>${t("start.demo_action")}</${Button}>`}
    </${Step}>
    <${Step} n="2" done=${Boolean(s.agent)} title=${t("start.agent")} text=${t("start.agent_text")}>
      ${!s.agent && html`<a class="button ${s.provider ? "primary" : "plain"}" href=${to("agents") + "?create=1"}>${t("start.agent_action")}</a>`}
    </${Step}>
    <${Step} n="3" done=${s.runs} title=${t("start.chat")} text=${t("start.chat_text")}>
      ${s.agent && html`<a class="button primary" href=${to("chat", s.agent.name)}>${t("start.chat_action")}</a>`}
    </${Step}></ol>`}</${Loaded}></${Page}>`;
}

export const Missing = () => html`<${Page} title=${t("error.not_found")}><p>${t("error.no_page")}</p><p><a class="button plain" href=${to()}>${t("error.start")}</a></p></${Page}>`;
