// Two texts line by line, and the log of a program.
import { html, useEffect, useRef, useState } from "../lib/preact.js";
import { t } from "../app/text.js";
import { Button, Copy } from "./basic.js";

const maxLines = 2000;

/** diff returns the lines of two texts as {kind, text}: "" for equal ones, "add" and "del". */
export function diff(from, to) {
  const a = from.split("\n").slice(0, maxLines);
  const b = to.split("\n").slice(0, maxLines);
  const width = b.length + 1;
  const common = new Uint16Array((a.length + 1) * width); // the longest common sequence of the rests
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      common[i * width + j] = a[i] === b[j] ? common[(i + 1) * width + j + 1] + 1 : Math.max(common[(i + 1) * width + j], common[i * width + j + 1]);
    }
  }
  const lines = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      lines.push({ kind: "", text: a[i++] });
      j++;
    } else if (i < a.length && (j === b.length || common[(i + 1) * width + j] >= common[i * width + j + 1])) lines.push({ kind: "del", text: a[i++] });
    else lines.push({ kind: "add", text: b[j++] });
  }
  return lines;
}

/** Diff shows the changed lines with three lines around them. */
export function Diff({ from, to, label }) {
  const lines = diff(from, to);
  const near = lines.map((_, i) => lines.slice(Math.max(0, i - 3), i + 4).some((l) => l.kind));
  const shown = [];
  lines.forEach((line, i) => {
    if (near[i]) shown.push(html`<span class=${line.kind}>${line.kind === "add" ? "+ " : line.kind === "del" ? "- " : "  "}${line.text}</span>`);
    else if (i === 0 || near[i - 1]) shown.push(html`<span class="skip-lines">…</span>`);
  });
  return html`<pre class="lines diff" tabindex="0" role="region" aria-label=${label}>${lines.some((l) => l.kind) ? shown : t("diff.equal")}</pre>`;
}

/** Log shows lines, follows the end, and filters. */
export function Log({ lines, paused, onPause }) {
  const [filter, setFilter] = useState("");
  const ref = useRef(null);
  const shown = filter ? lines.filter((l) => l.toLowerCase().includes(filter.toLowerCase())) : lines;
  useEffect(() => { if (!paused && ref.current) ref.current.scrollTop = ref.current.scrollHeight; }, [shown.length, paused]);
  return html`<div class="filters">
      <input type="search" aria-label=${t("log.filter")} placeholder=${t("log.filter")} value=${filter} onInput=${(e) => setFilter(e.target.value)} />
      <${Button} action=${onPause}>${paused ? t("log.follow") : t("log.pause")}</${Button}><${Copy} text=${shown.join("\n")} /></div>
    <pre class="lines wrap" ref=${ref} tabindex="0" role="log" aria-label=${t("log.title")}>${shown.length ? shown.join("\n") : t("log.empty")}</pre>`;
}
