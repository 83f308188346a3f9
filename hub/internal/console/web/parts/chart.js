// A chart of bars, with its values as a table for screen readers.
import { html, useEffect, useRef, useState } from "../lib/preact.js";
import { compact, date, t } from "../app/text.js";

/** @typedef {{label: string, value: number}} Bar */

const height = 180;
const left = 56; // of the labels of the values
const bottom = 24; // of the labels of the bars

/** Chart draws in pixels of the screen, so that its texts have the size of others. */
function Chart({ items, label, format }) {
  const place = useRef(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const sizes = new ResizeObserver(([entry]) => setWidth(Math.round(entry.contentRect.width)));
    sizes.observe(place.current);
    return () => sizes.disconnect();
  }, []);
  const most = Math.max(...items.map((i) => i.value));
  const step = Math.max(0, width - left) / items.length;
  const bar = Math.min(48, step * 0.7);
  const every = Math.max(1, Math.ceil(64 / (step || 1)));
  const y = (f) => (height - bottom - 8) * (1 - f) + 8;
  return html`<div class="chart" ref=${place}>
    ${width > 0 && html`<svg viewBox="0 0 ${width} ${height}" height=${height} role="img" aria-label=${label}>
      ${[0, 0.5, 1].map((f) => html`<line x1=${left} x2=${width} y1=${y(f)} y2=${y(f)} /><text x=${left - 8} y=${y(f) + 4} text-anchor="end">${format(most * f)}</text>`)}
      ${items.map((item, i) => html`<g>
        <rect x=${left + i * step + (step - bar) / 2} width=${bar} y=${y(item.value / most)} height=${y(0) - y(item.value / most)}><title>${item.label}: ${format(item.value)}</title></rect>
        ${i % every === 0 && html`<text x=${left + (i + 0.5) * step} y=${height - 4} text-anchor="middle">${item.label}</text>`}</g>`)}
    </svg>`}
    <div class="hidden"><table><caption>${label}</caption><tbody>${items.map((item) => html`<tr><th scope="row">${item.label}</th><td>${format(item.value)}</td></tr>`)}</tbody></table></div>
  </div>`;
}

/** Bars shows values of zero or more, at most 60. @param {{items: Bar[], label: string, format?: (n: number) => string}} props */
export function Bars({ items, label, format = compact }) {
  if (!items.some((i) => i.value > 0)) return html`<p class="soft">${t("chart.none")}</p>`;
  return html`<${Chart} items=${items} label=${label} format=${format} />`;
}

const day = 86_400_000; // milliseconds

/** daily returns a bar for each day from the first to the last one, at most 60, also for those without a row. */
export function daily(rows, from, until, value) {
  const of = new Map(rows.map((r) => [r.day, value(r)]));
  const first = Math.max(Date.parse(from), Date.parse(until) - 59 * day);
  const bars = [];
  for (let at = first; at <= Date.parse(until); at += day) {
    const name = new Date(at).toISOString().slice(0, 10);
    bars.push({ label: date(name, { month: "short", day: "numeric", timeZone: "UTC" }), value: of.get(name) || 0 });
  }
  return bars;
}
