// A chart of bars, with its values as a table for screen readers.
import { html } from "../lib/preact.js";
import { compact, t } from "../app/text.js";

/** Bars shows values of zero or more, at most 60. */
export function Bars({ items, label, format = compact }) {
  if (!items.length || !items.some((i) => i.value > 0)) return html`<p class="soft">${t("chart.none")}</p>`;
  const most = Math.max(...items.map((i) => i.value));
  const [width, height, left, bottom] = [600, 180, 48, 24];
  const step = (width - left) / items.length;
  const every = Math.ceil(items.length / 8);
  return html`<svg class="chart" viewBox="0 0 ${width} ${height}" role="img" aria-label=${label}>
      ${[0, 0.5, 1].map((f) => html`<line x1=${left} x2=${width} y1=${(height - bottom) * (1 - f) + 8} y2=${(height - bottom) * (1 - f) + 8} /><text x="0" y=${(height - bottom) * (1 - f) + 12}>${format(most * f)}</text>`)}
      ${items.map((item, i) => {
        const h = (item.value / most) * (height - bottom - 8);
        return html`<rect x=${left + i * step + step * 0.15} width=${Math.min(48, step * 0.7)} y=${height - bottom + 8 - h} height=${h}><title>${item.label}: ${format(item.value)}</title></rect>
          ${i % every === 0 && html`<text x=${left + i * step + step * 0.15} y=${height - 2}>${item.label}</text>`}`;
      })}
    </svg>
    <table class="hidden"><caption>${label}</caption><tbody>${items.map((item) => html`<tr><th scope="row">${item.label}</th><td>${format(item.value)}</td></tr>`)}</tbody></table>`;
}
