// What waits for the user, in own chats and in those of others.
import { html, useEffect, useState } from "../lib/preact.js";
import { call, currentUser, get, path, query } from "../app/api.js";
import { to } from "../app/router.js";
import { t } from "../app/text.js";
import { describe, Empty, Loaded, Page, Paging, Time, useInterval, useLoad } from "../parts/basic.js";
import { toast } from "../parts/dialog.js";
import { each } from "../parts/part.js";
import { changed, Waiting } from "../parts/waiting.js";

const pageSize = 20;
const approval = (id) => "/api/v1" + path("approvals", id);

/** One has all of what waits: the list has only the start of it. */
function One({ row, reload, place, moved }) {
  const state = useLoad(() => get(approval(row.id)));
  useEffect(moved, [state.loading]);
  const send = async ([{ id, ...answer }]) => {
    try {
      await call("POST", approval(id), answer);
      toast(t("waits.sent"));
    } catch (fault) {
      if (![404, 409].includes(fault.status)) throw fault;
      toast(describe(fault), { kind: "bad" }); // it does not wait any more, or cannot be answered so
    }
    changed();
    await reload();
  };
  const own = row.userId === currentUser().id;
  return html`<article class="panel">
    <header><strong>${row.agentName}</strong> <span>${row.userName}</span> <span class="soft"><${Time} at=${row.createdAt} /></span>
      ${own && html`<a href=${to("chat", row.agentName, row.sessionId)}>${t("waits.chat")}</a>`}</header>
    <${Loaded} state=${state}>${(full) => html`<${Waiting} pending=${[{ ...full, tool_name: full.toolName }]} may place=${place} send=${send} />`}</${Loaded}>
  </article>`;
}

export function Approvals({ place }) {
  const page = Number(place.query.get("page")) || 1;
  const state = useLoad(() => get("/api/v1/approvals" + query({ page, page_size: pageSize })), [page]);
  const [moves, setMoves] = useState(0); // of cards below one whose height has changed
  const moved = () => setMoves((n) => n + 1);
  useInterval(state.reload, 2000);
  useEffect(() => {
    addEventListener("waits", state.reload);
    return () => removeEventListener("waits", state.reload);
  }, [state.reload]);
  return html`<${Page} title=${t("page.approvals")}><p>${t("approvals.text")}</p>
    <${Loaded} state=${state}>${(list) => (list.items.length ? html`${each(list.items, "div", (row) => html`<${One} row=${row} reload=${state.reload} place=${[moves, ...list.items.map((item) => item.id)].join()} moved=${moved} />`)}
      <${Paging} page=${page} size=${pageSize} total=${list.total} />` : html`<${Empty} text=${t("waits.none")} />`)}</${Loaded}>
  </${Page}>`;
}
