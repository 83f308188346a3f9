// A part of a page that can fail for itself: what cannot be shown has a short text in its place, and the rest stays.
import { html, textOf, useErrorBoundary, useRef } from "../lib/preact.js";
import { t } from "../app/text.js";

const Called = ({ of }) => of();

/** Part shows the view that a function returns. in is the name of the element in place of one that fails. */
export function Part({ of, in: name = "p" }) {
  const failed = useRef(null);
  useErrorBoundary((fault) => {
    console.error(fault);
    failed.current = of;
  });
  if (failed.current !== of) return html`<${Called} of=${of} />`;
  return html`<${name} class="notice bad">${name === "tr" ? html`<td colspan="100">${t("part.unshown")}</td>` : t("part.unshown")}</${name}>`;
}

/** idOf returns what identifies an element of most lists. */
export const idOf = (item) => item.id || item.name;

/** each returns a part for each element of a list of the hub. */
export const each = (items, name, view, keyOf = idOf) => (items || []).map((item, i) => html`<${Part} key=${textOf(item && keyOf(item)) || i} in=${name} of=${() => view(item, i)} />`);
