// What programs need that use an agent as a model. The texts are those of agenthost connect.
import { html } from "../lib/preact.js";
import { base } from "../app/router.js";
import { t } from "../app/text.js";
import { Copy, Facts } from "./basic.js";

/** @param {string} url @param {string} model @returns {[string, string][]} */
const texts = (url, model) => [
  ["curl", `curl ${url}/chat/completions \\
  -H 'Authorization: Bearer CLI_TOKEN' -H 'Content-Type: application/json' \\
  -d '{"model": "${model}", "messages": [{"role": "user", "content": "Hello!"}]}'
`],
  ["openai-python", `# pip install openai
from openai import OpenAI

client = OpenAI(base_url="${url}", api_key="CLI_TOKEN")
answer = client.chat.completions.create(model="${model}", messages=[{"role": "user", "content": "Hello!"}])
print(answer.choices[0].message.content)
`],
  ["openai-node", `// npm install openai
import OpenAI from "openai";

const client = new OpenAI({ baseURL: "${url}", apiKey: "CLI_TOKEN" });
const answer = await client.chat.completions.create({ model: "${model}", messages: [{ role: "user", content: "Hello!" }] });
console.log(answer.choices[0].message.content);
`],
];

/** Connect has the base URL, the model and the texts. @param {{model: string}} props */
export function Connect({ model }) {
  const url = location.origin + base + "/openai/v1";
  return html`<section class="panel"><h2>${t("agent.connect")}</h2><p class="soft">${t("agent.connect_text")}</p>
    <${Facts} items=${[[t("agent.base_url"), html`<code>${url}</code> <${Copy} text=${url} />`], [t("field.model"), html`<code>${model}</code> <${Copy} text=${model} />`]]} />
    ${texts(url, model).map(([name, text]) => html`<details><summary>${name}</summary><pre class="lines" tabindex="0">${text}</pre><${Copy} text=${text} /></details>`)}
  </section>`;
}
