// The page with which agenthost login --browser signs in: the user lets the program on this computer act for the user.
import { html, useState } from "../lib/preact.js";
import { call, currentUser, query } from "../app/api.js";
import { t } from "../app/text.js";
import { Button, Facts, Page } from "../parts/basic.js";

/** listener returns the address at which the program waits, on this computer only, or null. */
function listener(port) {
  if (!/^[1-9][0-9]{3,4}$/.test(port) || Number(port) > 65535) return null;
  return Object.assign(new URL(location.origin), { protocol: "http:", hostname: "127.0.0.1", port }).href;
}

export function Program({ place }) {
  const user = currentUser();
  const [, port, challenge] = place.segments;
  const address = listener(port);
  const [left, setLeft] = useState(false);
  if (!address || !/^[A-Za-z0-9_-]{43}$/.test(challenge)) return html`<${Page} title=${t("program.title")}><p class="error" role="alert">${t("program.invalid")}</p></${Page}>`;
  // The program knows the challenge, and accepts no request without it. It exchanges the code with its verifier.
  const leave = (values) => {
    setLeft(true);
    location.replace(address + query({ ...values, state: challenge }));
  };
  const allow = async () => leave({ code: (await call("POST", "/auth/sessions", { code_challenge: challenge })).authorization_code });
  return html`<${Page} title=${t("program.title")}>
    <p>${t("program.text")}</p>
    <${Facts} items=${[[t("program.code"), html`<code>${challenge.slice(0, 8)}</code>`], [t("signin.username"), user.username], [t("account.role"), t("role." + user.role)], [t("signin.org"), user.tenant_id]]} />
    <p>${t("program.check")}</p>
    ${left && html`<p role="status">${t("program.left")}</p>`}
    <form class="buttons" onSubmit=${(event) => event.preventDefault()}><${Button} kind="primary" action=${allow}>${t("program.allow")}</${Button}>
      <${Button} action=${() => leave({ error: "access_denied" })}>${t("program.deny")}</${Button}></form>
  </${Page}>`;
}
