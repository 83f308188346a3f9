// Tables, whose rows can be sorted and selected.
import { html, textOf, useState } from "../lib/preact.js";
import { currentPlace, setQuery } from "../app/router.js";
import { language, t } from "../app/text.js";
import { Button, describe } from "./basic.js";
import { confirm, toast } from "./dialog.js";
import { each, idOf } from "./part.js";

/** A column is sortable if by returns a value of a row. @typedef {{text: string, cell: (row: any) => any, class?: string, by?: (row: any) => any}} Column */
/** An action runs for each selected row that permits it. @typedef {{text: string, title: (n: number) => string, effect: string, can: (row: any) => boolean, run: (row: any) => Promise<any>}} Action */
/** @typedef {{name: (row: any) => string, actions: Action[], reload: () => Promise<any>}} Select */

const isEmpty = (value) => value === undefined || value === null || value === "";

/** valueOf returns what a row is sorted by, or null: that of another hub may have any fields. */
function valueOf(row, by) {
  try {
    return by(row);
  } catch {
    return null;
  }
}

/** sorted returns the rows in the order of a value, those without one last. */
function sorted(rows, by, descending) {
  const compare = new Intl.Collator(language(), { numeric: true }).compare;
  const valued = rows.map((row) => ({ row, value: valueOf(row, by) }));
  valued.sort((a, b) => {
    if (isEmpty(a.value) || isEmpty(b.value)) return Number(isEmpty(a.value)) - Number(isEmpty(b.value));
    const order = typeof a.value === "number" && typeof b.value === "number" ? a.value - b.value : compare(textOf(a.value), textOf(b.value));
    return descending ? -order : order;
  });
  return valued.map((v) => v.row);
}

/** orderOf returns the order in the address: the number of a column, negative if it is descending. */
function orderOf(columns, param) {
  const n = Number(currentPlace().query.get(param)) || 0;
  const by = columns[Math.abs(n) - 1]?.by;
  return { n: by ? n : 0, by };
}

/** Head is a header that sorts: ascending, descending, and in the order of the hub again. */
function Head({ column, n, order, sort }) {
  const state = order === n ? "ascending" : order === -n ? "descending" : undefined;
  return html`<th scope="col" class=${column.class} aria-sort=${state}><button type="button" class="sort" onClick=${() => sort({ ascending: -n }[state || ""] ?? (state ? 0 : n))}>${column.text}
    <span aria-hidden="true">${state === "ascending" ? "▲" : state === "descending" ? "▼" : ""}</span></button></th>`;
}

/** Order is the choice of an order on a phone, where the headers are hidden. */
const Order = ({ columns, order, sort }) => html`<label class="order">${t("list.sort")}<select value=${order} onChange=${(e) => sort(Number(e.target.value))}><option value="0">${t("form.default")}</option>
  ${columns.map((c, i) => c.by && [i + 1, -i - 1].map((n) => html`<option value=${n} selected=${n === order}>${t(n > 0 ? "list.ascending" : "list.descending", { name: c.text })}</option>`))}</select></label>`;

/** Selection has the actions on the selected rows. One dialog names all that goes. */
function Selection({ rows, select, clear }) {
  const act = async (action, chosen) => {
    const n = chosen.length;
    if (!(await confirm({ title: action.title(n), text: action.effect, items: chosen.map(select.name), action: action.text, danger: true, name: String(n) }))) return;
    const failed = [];
    for (const row of chosen) {
      try {
        await action.run(row);
      } catch (fault) {
        failed.push(t("error.with_detail", { text: select.name(row), detail: describe(fault) }));
      }
    }
    clear();
    await select.reload();
    if (failed.length) toast(t("select.failed", { n: failed.length, list: failed.join(", ") }), { kind: "bad" });
    else toast(t("select.done", { n }));
  };
  return html`<div class="selection" role="group" aria-label=${t("select.label")}><span role="status">${t("select.count", { n: rows.length })}</span>
    ${select.actions.map((action) => {
      const chosen = rows.filter(action.can);
      return html`<${Button} key=${action.text} kind="small danger" disabled=${!chosen.length} action=${() => act(action, chosen)}>${t("select.action", { action: action.text, n: chosen.length })}</${Button}>`;
    })}<${Button} kind="small quiet" action=${clear}>${t("select.clear")}</${Button}></div>`;
}

/** Table has rows, which are links if href is given. They can be sorted, those of this page if the list is longer, and selected if select is given. On a phone it is a list of cards. @param {{columns: Column[], rows: any[], total?: number, href?: (row: any) => string, label: string, keyOf?: (row: any) => any, param?: string, select?: Select|false}} props */
export function Table({ columns, rows, total = 0, href, label, keyOf = idOf, param = "sort", select }) {
  const [picked, setPicked] = useState(/** @type {Set<string>} */ (new Set()));
  const sortable = rows.length > 1 && columns.some((c) => c.by);
  const order = sortable ? orderOf(columns, param) : { n: 0, by: undefined };
  const shown = order.by ? sorted(rows, order.by, order.n < 0) : rows;
  const sort = (n) => setQuery({ [param]: n || "" });
  const key = (row) => textOf(row && keyOf(row));
  const free = select ? shown.filter((row) => row && select.actions.some((a) => a.can(row))) : [];
  const chosen = free.filter((row) => picked.has(key(row)));
  const pick = (some, on) => setPicked((before) => {
    const next = new Set(before);
    for (const row of some) next[on ? "add" : "delete"](key(row));
    return next;
  });
  const move = (event) => {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    const row = event.target.closest("tbody tr");
    const next = row && (event.key === "ArrowDown" ? row.nextElementSibling : row.previousElementSibling);
    const target = next && next.querySelector(event.target.type === "checkbox" ? "input" : "a, button");
    if (target) {
      event.preventDefault();
      target.focus();
    }
  };
  return html`${sortable && html`<${Order} columns=${columns} order=${order.n} sort=${sort} />`}
    <table class="table" aria-label=${label} onKeyDown=${move}>
    <thead><tr>${free.length > 0 && html`<td class="pick"><input type="checkbox" aria-label=${t("select.all")} checked=${chosen.length === free.length} indeterminate=${chosen.length > 0 && chosen.length < free.length} onChange=${(e) => pick(free, e.target.checked)} /></td>`}
      ${columns.map((c, i) => (sortable && c.by ? html`<${Head} column=${c} n=${i + 1} order=${order.n} sort=${sort} />` : html`<th scope="col" class=${c.class}>${c.text || html`<span class="hidden">${t("list.actions")}</span>`}</th>`))}</tr></thead>
    <tbody>${each(shown, "tr", (row) => html`<tr class=${picked.has(key(row)) ? "picked" : ""}>
      ${free.length > 0 && select && html`<td class="pick">${free.includes(row) && html`<input type="checkbox" aria-label=${t("select.row", { name: select.name(row) })} checked=${picked.has(key(row))} onChange=${(e) => pick([row], e.target.checked)} />`}</td>`}
      ${columns.map((c, i) => html`<td class=${c.class} data-label=${c.text}>${i === 0 && href ? html`<a class="row" href=${href(row)}>${c.cell(row)}</a>` : c.cell(row)}</td>`)}</tr>`, keyOf)}</tbody>
  </table>
  ${order.by && total > rows.length && html`<p class="soft">${t("list.sorted")}</p>`}
  ${chosen.length > 0 && select && html`<${Selection} rows=${chosen} select=${select} clear=${() => setPicked(new Set())} />`}`;
}
