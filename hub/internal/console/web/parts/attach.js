// Images and files of a message: those that are chosen for the next one, and those of stored ones.
import { html, textOf, useEffect, useRef, useState } from "../lib/preact.js";
import { call, path, request, save } from "../app/api.js";
import { bytes, t, visible } from "../app/text.js";
import { Button, describe } from "./basic.js";
import { el } from "./inline.js";

const maxFiles = 8; // the limits are those of the hub
const maxImage = 5 * 2 ** 20;
const maxImages = 20 * 2 ** 20;
const maxFile = 10 * 2 ** 20;
const maxAll = 30 * 2 ** 20;
const images = ["image/png", "image/jpeg", "image/gif", "image/webp"];

const isImage = (type) => images.includes(type);

/** @typedef {{id: number, file: File, uploadId: string, mediaType: string, fault: string, aborted: AbortController}} Item */

/** faultOf returns why a file cannot follow others, or "". @param {File} file @param {Item[]} before */
function faultOf(file, before) {
  const image = isImage(file.type);
  const sum = (items) => items.reduce((n, item) => n + item.file.size, file.size);
  if (before.length >= maxFiles) return t("attach.many", { n: maxFiles });
  if (!file.size) return t("attach.empty");
  if (file.size > (image ? maxImage : maxFile)) return t("attach.large", { size: bytes(image ? maxImage : maxFile) });
  if (image && sum(before.filter((item) => isImage(item.file.type))) > maxImages) return t("attach.together", { size: bytes(maxImages) });
  if (sum(before) > maxAll) return t("attach.together", { size: bytes(maxAll) });
  return "";
}

/** dataURL returns the address of bytes, which the policy of the page permits for images. @param {Blob} blob @returns {Promise<string>} */
const dataURL = (blob) => new Promise((resolve, reject) => {
  const reader = new FileReader();
  reader.onload = () => resolve(String(reader.result));
  reader.onerror = () => reject(reader.error);
  reader.readAsDataURL(blob);
});

let next = 0;

/** useAttached returns the files that are chosen for the next message to an agent. Each is sent at once, and has its fault in its place. */
export function useAttached(agent) {
  const [items, setItems] = useState(/** @type {Item[]} */ ([]));
  const latest = useRef(items);
  const set = (list) => {
    latest.current = list;
    setItems(list);
  };
  const change = (id, values) => set(latest.current.map((item) => (item.id === id ? { ...item, ...values } : item)));
  useEffect(() => () => { for (const item of latest.current) item.aborted.abort(); }, []);
  /** @param {Iterable<File>} files */
  const add = async (files) => {
    const added = [];
    for (const file of files) {
      const usable = [...latest.current, ...added].filter((item) => !item.fault);
      added.push({ id: next++, file, uploadId: "", mediaType: "", fault: faultOf(file, usable), aborted: new AbortController() });
    }
    set([...latest.current, ...added]);
    for (const item of added) { // one after the other: a user has a share of the memory of the hub
      if (item.fault || item.aborted.signal.aborted) continue;
      try {
        const sent = await call("POST", "/api/v1" + path("agents", agent, "chat", "uploads"), item.file, { headers: { "Content-Type": "application/octet-stream" }, signal: item.aborted.signal });
        change(item.id, { uploadId: textOf(sent.id), mediaType: textOf(sent.mediaType) });
      } catch (error) {
        if (!item.aborted.signal.aborted) change(item.id, { fault: Object.values(error.fields || {})[0] || describe(error) });
      }
    }
  };
  const remove = (id) => {
    latest.current.find((item) => item.id === id)?.aborted.abort();
    set(latest.current.filter((item) => item.id !== id));
  };
  return {
    items, add, remove, clear: () => set([]),
    sending: items.some((item) => !item.uploadId && !item.fault), faulty: items.some((item) => item.fault),
    /** blocks are the parts of the message. */
    blocks: () => latest.current.map((item) => ({
      type: isImage(item.mediaType) ? "image" : "file", name: item.file.name, mediaType: item.mediaType, size: item.file.size, uploadId: item.uploadId, local: item.file,
    })),
  };
}

function Preview({ item, remove }) {
  const [source, setSource] = useState("");
  useEffect(() => {
    if (isImage(item.file.type) && !item.fault) dataURL(item.file).then(setSource, () => {});
  }, [item.fault]);
  const name = visible(item.file.name);
  return html`<li class=${item.fault ? "bad" : ""}>
    ${source && html`<img src=${source} alt="" />`}
    <span class="name">${name}</span> <span class="soft">${bytes(item.file.size)}</span>
    ${item.fault ? html`<span class="fault" role="alert">${item.fault}</span>` : !item.uploadId && html`<span class="soft" role="status">${t("attach.sending")}</span>`}
    <${Button} kind="quiet small" label=${t("attach.remove", { name })} action=${() => remove(item.id)}>×</${Button}></li>`;
}

/** Attached lists the files of the next message. */
export function Attached({ attached, removed }) {
  if (!attached.items.length) return null;
  return html`<ul class="attached" aria-label=${t("attach.list")}>${attached.items.map((item) => html`<${Preview} key=${item.id} item=${item} remove=${(id) => {
    attached.remove(id);
    removed();
  }} />`)}</ul>`;
}

/** Choose is the button that opens the dialog of the system. */
export function Choose({ attached }) {
  const input = useRef(null);
  return html`<input type="file" multiple hidden ref=${input} aria-label=${t("attach.choose")} onChange=${(event) => {
    attached.add([...event.target.files]);
    event.target.value = "";
  }} /><${Button} kind="quiet small" label=${t("attach.choose")} action=${() => input.current.click()}>${t("attach.short")}</${Button}>`;
}

/** filesOf returns the files of a paste or a drop, unless it has a text. @param {DataTransfer|null} data */
export const filesOf = (data) => (data && !data.types.includes("text/plain") ? [...data.files] : []);

let queue = Promise.resolve();

/** load loads an image when it is seen, after those before it. */
function load(image, source, block) {
  const seen = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    seen.disconnect();
    queue = queue.then(async () => {
      try {
        const blob = block.local || await (await request("GET", source, { headers: { Accept: "*/*" } })).blob();
        if (isImage(blob.type)) image.src = await dataURL(blob);
      } catch {
        image.replaceWith(el("span", { class: "soft" }, t("attach.gone")));
      }
    });
  });
  seen.observe(image);
}

/** attachmentOf returns the node of a block of a message: a button that stores the file, with the image. sourceOf returns the address of an upload. */
export function attachmentOf(block, sourceOf) {
  const name = visible(textOf(block.name)) || t(block.type === "image" ? "attach.image" : "attach.file");
  const source = sourceOf(textOf(block.uploadId));
  const button = el("button", { type: "button", class: "button plain attachment", title: t("attach.download", { name }), "aria-label": block.type === "image" && t("attach.download", { name }), click: () => save(source, name).catch((error) => {
    button.append(el("span", { class: "fault", role: "alert" }, describe(error)));
  }) });
  if (block.type === "image") {
    const image = el("img", { alt: name });
    button.append(image);
    load(image, source, block);
  } else button.append(name, " ", el("span", { class: "soft" }, bytes(block.size)));
  return button;
}
