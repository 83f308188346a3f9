// The files of the working directory of a deployed agent.
import { html, textOf, useState } from "../lib/preact.js";
import { admin, canWrite, get, query, request, save } from "../app/api.js";
import { bytes, t, visible } from "../app/text.js";
import { Button, Loaded, useLoad } from "../parts/basic.js";
import { Dialog, open } from "../parts/dialog.js";
import { each } from "../parts/part.js";

const shownBytes = 256_000; // of a file; the whole one can be downloaded

function Content({ agent, path, close }) {
  const source = admin("agents", agent, "files", "content") + query({ path });
  const state = useLoad(async () => {
    const response = await request("GET", source, { headers: { Accept: "*/*", Range: "bytes=0-" + (shownBytes - 1) } });
    return new TextDecoder().decode(await response.arrayBuffer());
  });
  return html`<${Dialog} wide title=${visible(path)} onClose=${() => close()}>
    <${Loaded} state=${state}>${(text) => html`<pre class="lines" tabindex="0">${visible(text)}</pre>`}</${Loaded}>
    <div class="buttons"><${Button} action=${() => save(source, path.split("/").pop())}>${t("files.download")}</${Button}><${Button} kind="primary" action=${() => close()}>${t("action.close")}</${Button}></div>
  </${Dialog}>`;
}

export function Files({ agent, close }) {
  const [path, setPath] = useState("");
  const state = useLoad(() => get(admin("agents", agent, "files") + query({ path })), [path]);
  const show = (entry) => {
    const full = (path && path + "/") + textOf(entry.name);
    if (entry.type === "directory") setPath(full);
    else open((done) => html`<${Content} agent=${agent} path=${full} close=${done} />`);
  };
  return html`<div><div class="top"><h2>${t("files.title")}</h2>
    <${Button} kind="quiet small" action=${state.reload}>${t("files.reload")}</${Button}>${close && html`<${Button} kind="quiet small" action=${close}>${t("action.close")}</${Button}>`}</div>
    <p><code>/${visible(path)}</code></p>
    <${Loaded} state=${state}>${(list) => html`<ul class="tree">
      ${path && html`<li><${Button} kind="quiet" action=${() => setPath(path.split("/").slice(0, -1).join("/"))}>..</${Button}></li>`}
      ${each(list.entries, "li", (entry) => html`<li><${Button} kind="quiet" disabled=${entry.type !== "directory" && !canWrite()} action=${() => show(entry)}>${visible(textOf(entry.name))}${entry.type === "directory" ? "/" : ""}</${Button}>
        ${entry.type !== "directory" && html`<span class="soft">${bytes(entry.size)}</span>`}</li>`)}
      ${!list.entries.length && html`<li class="soft">${t("files.none")}</li>`}</ul>`}</${Loaded}></div>`;
}
