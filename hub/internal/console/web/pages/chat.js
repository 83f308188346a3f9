// Chats with an agent: sessions on the left, the conversation, and files of the agent on demand.
import { html, textOf, useEffect, useRef, useState } from "../lib/preact.js";
import { admin, all, call, canWrite, currentUser, get, path, query, request } from "../app/api.js";
import { currentPlace, go, setQuery, to } from "../app/router.js";
import { descriptionOf, t, titleOf } from "../app/text.js";
import { Attached, Choose, filesOf, useAttached } from "../parts/attach.js";
import { Button, describe, Empty, isEnter, Loaded, Page, State, Time, useInterval, useLoad } from "../parts/basic.js";
import { confirm, toast } from "../parts/dialog.js";
import { Conversation } from "../parts/conversation.js";
import { Attempts, events } from "../parts/events.js";
import { each } from "../parts/part.js";
import { changed } from "../parts/waiting.js";
import { Files } from "./files.js";

const chats = (agent, ...rest) => "/api/v1" + path("agents", agent, "chat", "sessions", ...rest);
const pageSize = 50;

/** messagesOf returns a page of messages. The hub ends a page early if it is large. */
async function messagesOf(agent, session, page) {
  const items = [];
  let list = await get(chats(agent, session, "messages") + query({ page, page_size: pageSize }));
  items.push(...list.items);
  while (list.next && items.length < pageSize && (page - 1) * pageSize + items.length < list.total) {
    list = await get(chats(agent, session, "messages") + query({ next: list.next, page_size: pageSize - items.length }));
    items.push(...list.items);
  }
  return { items, total: list.total };
}

const newID = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");

/** seen has the chats with an answer in progress ("answering"), and with one that ended since ("unread"), of this browser. */
const seen = {
  of: (id) => localStorage.getItem("answer " + id),
  set: (id, state) => (state ? localStorage.setItem("answer " + id, state) : localStorage.removeItem("answer " + id)),
};

/** note notes what a list of chats says about their answers. The current chat is read. */
function note(list, current) {
  for (const s of list) {
    if (typeof s?.id !== "string") continue;
    const before = seen.of(s.id);
    if (s.answering) seen.set(s.id, "answering");
    else if (before && s.id === current && !document.hidden) seen.set(s.id, "");
    else if (before === "answering") seen.set(s.id, "unread");
  }
}

/** stateOf returns the state of the last answer of a chat. */
const stateOf = (session) => (session.answering ? "answering" : session.waiting ? "waiting" : "");

/** Mark shows that an answer is in progress, waits, or has ended and is not read. */
function Mark({ session }) {
  const state = stateOf(session) || seen.of(session.id);
  return state ? html`<i class="mark ${state}" role="img" aria-label=${t("chat.mark." + state)} title=${t("chat.mark." + state)}></i>` : null;
}

function Sessions({ agent, current, version, onState }) {
  const [pages, setPages] = useState(1);
  const state = useLoad(async () => {
    const lists = await Promise.all(Array.from({ length: pages }, (_, i) => get(chats(agent) + query({ page: i + 1, page_size: 100 }))));
    const items = lists.flatMap((l) => l.items);
    note(items, current);
    return { items, total: lists[0].total };
  }, [agent, version, pages, current]);
  useEffect(() => { // not for a list that is older than the last change
    const here = state.data?.items.find((s) => s?.id === current);
    if (here) onState(stateOf(here));
  }, [state.data]);
  useInterval(state.reload, state.data?.items.some((s) => s?.answering || s?.waiting) ? 2000 : 5000);
  useEffect(() => { // another page of this browser has sent a message, or has seen an answer end
    const changed = (event) => { if (event.key?.startsWith("answer ")) state.reload(); };
    addEventListener("storage", changed);
    return () => removeEventListener("storage", changed);
  }, [state.reload]);
  const remove = async (s) => {
    if (!(await confirm({ title: t("chat.delete_title"), text: t("chat.delete_text", { n: s.messageCount }), action: t("action.delete"), danger: true }))) return;
    await call("DELETE", chats(agent, s.id));
    if (s.id === current) await go(to("chat", agent), { force: true });
    await state.reload();
  };
  return html`<${Loaded} state=${state}>${(list) => html`<ul class="sessions">${each(list.items, "li", (s) => html`<li aria-current=${s.id === current ? "true" : undefined}>
    <a href=${to("chat", agent, s.id)}>${s.title || t("chat.untitled")}<${Mark} session=${s} /><span><${Time} at=${s.lastMessageAt || s.createdAt} /></span></a>
    <${Button} kind="quiet small" label=${t("chat.delete", { title: s.title || t("chat.untitled") })} action=${() => remove(s)}>×</${Button}></li>`)}</ul>
    ${list.items.length < list.total && html`<${Button} action=${() => setPages(pages + 1)}>${t("list.more")}</${Button}>`}`}</${Loaded}>`;
}

/** Undeployed offers to deploy the agent. */
function Undeployed({ agent, deployment, reload }) {
  const state = deployment ? deployment.state : "not_deployed";
  if (state === "running" || state === "unhealthy") return null;
  const waits = ["deploying", "starting"].includes(state);
  return html`<div class="note info" role="status"><span>${waits ? t("chat.starting") : t("chat.not_deployed")}</span>
    ${!waits && canWrite() && html` <${Button} kind="small" action=${async () => {
      await call("POST", admin("agents", agent, "deploy") + (state === "stopped" ? "/start" : ""), state === "stopped" ? undefined : {});
      await reload();
    }}>${t("agent.deploy")}</${Button}>`}</div>`;
}

/** draft returns the message that was begun on the page of the agent. */
function draft() {
  const text = sessionStorage.getItem("draft") || "";
  sessionStorage.removeItem("draft");
  return text;
}

function Talk({ agent, session, onChange, files, setFiles, state: listed }) {
  const scroller = useRef(null);
  const column = useRef(null);
  const talk = useRef(null);
  const [text, setText] = useState(draft);
  const attached = useAttached(agent.name);
  const field = useRef(null);
  const [dropping, setDropping] = useState(false);
  const [running, setRunning] = useState(null);
  const [following, setFollowing] = useState(true);
  const [empty, setEmpty] = useState(!session);
  const [fault, setFault] = useState(null);
  const [lost, setLost] = useState("");
  const attempts = useRef(new Attempts(setLost));
  const [said, setSaid] = useState("");
  const pages = useRef({ first: 1, loading: false });
  const sessionRef = useRef(session);
  const known = useRef(/** @type {string|null} */ (null)); // the state of the last answer of this page
  const waiting = useRef(/** @type {any} */ (null)); // the answer that waits
  const scenes = useLoad(() => all("/api/v1/scenes").then((list) => list.filter((s) => s.agentName === agent.name)), [agent.name]);
  const deployment = useLoad(() => get(admin("agents", agent.name, "deploy")), [agent.name]);
  const state = deployment.data ? deployment.data.state : "";
  useInterval(deployment.reload, ["deploying", "starting", "stopping"].includes(state) ? 500 : 15_000);

  const older = async () => {
    const p = pages.current;
    if (p.loading || p.first <= 1) return;
    p.loading = true;
    try {
      const list = await messagesOf(agent.name, sessionRef.current, p.first - 1);
      p.first--;
      const chunk = await talk.current.render(list.items);
      if (talk.current && p === pages.current) talk.current.add(chunk, true);
    } catch (error) {
      toast(describe(error), { kind: "bad" });
      return;
    } finally {
      p.loading = false;
    }
    if (talk.current && p === pages.current && scroller.current.scrollTop < 600) older(); // the user waits at the top
  };
  const load = async () => {
    const id = sessionRef.current;
    setFault(null);
    try {
      let list = await messagesOf(agent.name, id, 1);
      const last = Math.max(1, Math.ceil(list.total / pageSize));
      if (last > 1) list = await messagesOf(agent.name, id, last);
      if (!talk.current || id !== sessionRef.current) return;
      const open = list.items.at(-1)?.role === "assistant" && list.items.at(-1).status === "partial" ? list.items.pop() : null;
      waiting.current = null;
      const chunk = await talk.current.render(list.items);
      if (!talk.current || id !== sessionRef.current) return;
      talk.current.clear();
      talk.current.add(chunk);
      known.current = open ? "answering" : list.items.at(-1)?.status === "waiting" ? "waiting" : "";
      pages.current = { first: last, loading: false };
      setEmpty(!list.total);
      talk.current.latest();
      if (last > 1 && list.items.length < pageSize / 2) await older();
      if (open) {
        await receive(talk.current.begin(list.items.at(-1)), (answer, controller) => {
          begun(open.id);
          return follow(answer, open.id, "", controller);
        });
      }
    } catch (error) {
      setFault(error);
    }
  };
  useEffect(() => {
    talk.current = new Conversation(scroller.current, column.current, { onFollow: setFollowing, onTop: older, retry: (message) => send(textOf(message.text), message.content), settle, sourceOf: (id) => chats(agent.name, sessionRef.current, "uploads", id), onWait: (answer) => { waiting.current = answer; } });
    if (session) load();
    return () => {
      talk.current.close();
      talk.current = null;
      abort.current?.abort();
    };
  }, []);
  const abort = useRef(null);
  const current = useRef({ id: "", stops: false }); // the answer that is received
  const cancel = async () => {
    try {
      await call("POST", chats(agent.name, sessionRef.current, "messages", current.current.id, "cancel"));
    } catch (error) {
      if (error.status !== 409) throw error; // it has ended
    }
  };
  /** begun notes the id of the answer, which the user perhaps has stopped before. */
  const begun = (id) => {
    current.current.id = id;
    if (current.current.stops) cancel().catch((error) => toast(describe(error), { kind: "bad" }));
  };

  /** take shows the events of a response, and returns the id of the last one, or null after the end. */
  const take = async (answer, response, after, first = (_event) => {}) => {
    if (response.status === 204) return null;
    let last = after;
    attempts.current.connected();
    try {
      for await (const { name, data, id } of events(response)) {
        attempts.current.received();
        if (name === "done") return null;
        if (name === "hub" && data?.type === "hub") first(data);
        await answer.event(name, data);
        last = id || last;
        answer.last = last;
      }
    } catch (error) {
      if (error.name !== "TypeError" && error.name !== "AbortError") throw error; // of the network
    }
    return last;
  };
  /** follow shows the events of an answer after the one with an id, and connects again until its end. */
  const follow = async (answer, message, after, controller) => {
    for (let last = after; last !== null && !controller.signal.aborted;) {
      try {
        const headers = { Accept: "text/event-stream", ...(last && { "Last-Event-ID": last }) };
        last = await take(answer, await request("GET", chats(agent.name, sessionRef.current, "messages", message, "events"), { headers, signal: controller.signal }), last);
      } catch (error) {
        if (controller.signal.aborted) return;
        if (error.status && error.status < 500 && error.status !== 429) throw error;
      }
      if (last === null || controller.signal.aborted) return;
      await attempts.current.next(controller.signal);
    }
  };
  /** receive shows an answer that arrives. The answer does not need the page, which can be left. */
  const receive = async (answer, run) => {
    const controller = new AbortController();
    abort.current = controller;
    current.current = { id: "", stops: false };
    attempts.current.received();
    known.current = "answering";
    setRunning(controller);
    try {
      await run(answer, controller);
      if (controller.signal.aborted) return;
      const { status = "completed", pending, messageId } = answer.saved || {};
      answer.id = textOf(messageId) || answer.id;
      known.current = status === "waiting" ? status : "";
      answer.end({ status, pending });
      setSaid(status === "waiting" ? t("waits.said") : t("chat.complete"));
      changed();
    } catch (error) {
      if (controller.signal.aborted) return;
      known.current = "";
      answer.notice(describe(error), true);
      answer.end({ status: "failed" });
      if (error.code === "agent_not_deployed") deployment.reload();
    } finally {
      if (talk.current && !controller.signal.aborted) {
        setRunning(null);
        setLost("");
        onChange(sessionRef.current);
      }
    }
  };
  useEffect(() => { if (known.current !== null && listed !== known.current && !running && talk.current) load(); }, [listed]); // another tab or user was first
  /** settle sends the answers of what an answer waits for, which it continues. */
  const settle = async (answer, answers) => {
    let sent;
    try {
      sent = await call("POST", chats(agent.name, sessionRef.current, "messages"), { answers, background: true });
    } catch (fault) {
      if (fault.status !== 409) throw fault;
      toast(describe(fault), { kind: "bad" }); // another was first, or the call has changed
      await load();
      return;
    }
    if (!sent.assistantMessageId) { // others have to answer too
      await load();
      return;
    }
    answer.settled();
    answer.by = currentUser().display_name || currentUser().username;
    answer.saved = null;
    answer.node.classList.add("live");
    waiting.current = null;
    setSaid("");
    receive(answer, (answer, controller) => {
      begun(sent.assistantMessageId);
      return follow(answer, sent.assistantMessageId, answer.last, controller);
    });
  };
  /** send sends a text, or the parts of a message, of which the first can be the text. */
  const send = async (message, parts = /** @type {any[]} */ ([])) => {
    const named = (Array.isArray(parts) ? parts : []).filter((b) => b?.uploadId);
    if ((!message.trim() && !named.length) || running) return;
    const content = named.length ? parts.map(({ type, text, name, uploadId }) => ({ type, text, name, uploadId })) : undefined;
    setText("");
    setSaid("");
    setEmpty(false);
    await receive(talk.current.ask({ text: message, content: content && parts }), async (answer, controller) => {
      if (!sessionRef.current) {
        const made = await call("POST", chats(agent.name), { title: (message.trim().split("\n")[0] || textOf(named[0]?.name)).slice(0, 60) });
        sessionRef.current = made.id;
        onChange(made.id);
        go(to("chat", agent.name, made.id), { replace: true, force: true });
      }
      let id = "";
      let last = "";
      const body = { message: content ? "" : message, content, clientMessageId: newID(), onDisconnect: "continue", inputs: ["approval", "question"] };
      const waited = waiting.current;
      while (!id) {
        try {
          const response = await request("POST", chats(agent.name, sessionRef.current, "messages"), { body, headers: { Accept: "text/event-stream" }, signal: controller.signal });
          if (response.headers.get("Content-Type")?.startsWith("application/json")) { // it was sent before the connection was lost
            id = (await response.json()).assistantMessage.id;
            begun(id);
            break;
          } else {
            const taken = await take(answer, response, "", (event) => {
              id = event.assistantMessageId;
              begun(id);
              if (waited && waited === waiting.current) { // the message has rejected it
                waited.settled();
                waited.notice(t("waits.dropped"));
                waiting.current = null;
              }
              onChange(sessionRef.current);
            });
            if (taken === null) return;
            last = taken;
          }
        } catch (error) {
          if (controller.signal.aborted || error.status) throw error;
        }
        if (controller.signal.aborted) return;
        await attempts.current.next(controller.signal);
      }
      await follow(answer, id, last, controller);
    });
  };
  const stop = async () => {
    current.current.stops = true;
    if (current.current.id) await cancel();
  };
  const ready = Boolean(text.trim() || attached.items.length) && !attached.sending && !attached.faulty && !lost;
  const submit = (event) => {
    event.preventDefault();
    if (!ready || running) return;
    const chosen = attached.blocks();
    attached.clear();
    send(text, chosen.length && text.trim() ? [{ type: "text", text }, ...chosen] : chosen);
  };
  const onKeyDown = (event) => {
    if (isEnter(event) && !event.shiftKey) submit(event);
  };
  const attach = (event, data) => {
    const chosen = filesOf(data);
    if (!chosen.length) return;
    event.preventDefault();
    attached.add(chosen);
    field.current?.focus();
  };
  const over = (event) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    setDropping(true);
  };
  return html`<section class="talk ${dropping ? "dropping" : ""}" onDragOver=${over} onDragLeave=${(event) => { if (!event.currentTarget.contains(event.relatedTarget)) setDropping(false); }}
    onDrop=${(event) => { setDropping(false); attach(event, event.dataTransfer); }} onPaste=${(event) => attach(event, event.clipboardData)}>
    <header><a class="only-phone" href="?list=1" onClick=${(e) => { e.preventDefault(); setQuery({ list: "1" }, false); }}>${t("chat.sessions")}</a><h1>${titleOf(agent)}</h1>
      ${deployment.data && html`<${State} of=${state} />`}
      <${Button} kind="small" action=${() => setFiles(!files)} aria-pressed=${files ? "true" : "false"}>${t("files.title")}</${Button}></header>
    <div class="scroll" ref=${scroller} tabindex="0" role="region" aria-label=${t("chat.conversation")}>
      ${fault && html`<div class="note bad" role="alert">${describe(fault)} <${Button} kind="small" action=${load}>${t("action.retry")}</${Button}></div>`}
      ${empty && html`<div class="column"><h2>${t("chat.begin", { name: titleOf(agent) })}</h2><p>${descriptionOf(agent)}</p>
        <ul class="suggestions">${each(scenes.data, "li", (s) => html`<li><button type="button" class="button" onClick=${() => send(s.prompt || titleOf(s))} disabled=${Boolean(s.promptOmitted)}>
          <span>${titleOf(s)}</span><span class="soft">${descriptionOf(s)}</span></button></li>`)}</ul></div>`}
      <div class="column" ref=${column}></div>
    </div>
    ${!following && html`<button type="button" class="button latest" onClick=${() => talk.current.latest()}>${t("chat.latest")}</button>`}
    <div class="compose">
      ${deployment.data && html`<${Undeployed} agent=${agent.name} deployment=${deployment.data} reload=${deployment.reload} />`}
      ${lost && html`<div class="note" role="alert">${t(lost === "trying" ? "chat.lost" : "chat.gone")} <${Button} kind="small" action=${() => attempts.current.now()}>${t("action.retry")}</${Button}></div>`}
      <${Attached} attached=${attached} removed=${() => field.current?.focus()} />
      <form onSubmit=${submit}>
        <textarea ref=${field} rows=${Math.min(8, text.split("\n").length)} aria-label=${t("chat.message")} placeholder=${t("chat.placeholder")} value=${text} onInput=${(e) => setText(e.target.value)} onKeyDown=${onKeyDown}></textarea>
        ${running ? html`<${Button} action=${stop}>${t("chat.stop")}</${Button}>` : html`<${Button} kind="primary" disabled=${!ready}>${t("chat.send")}</${Button}>`}
      </form>
      <div class="hint"><${Choose} attached=${attached} /><span>${t("chat.hint")}</span></div>
      <p class="hidden" role="status">${said}</p>
    </div>
  </section>`;
}

function AgentChat({ agents, name, session, listed }) {
  const agent = agents.find((a) => a.name === name);
  const [version, setVersion] = useState(0);
  const [state, setState] = useState("");
  const [files, setFiles] = useState(false);
  const [now, setNow] = useState(session);
  // A new chat gets its id with the first message: that is the same conversation.
  const key = useRef({ session, n: 0 });
  if (session !== key.current.session) key.current = { session, n: key.current.n + 1 };
  useEffect(() => setNow(session), [session]);
  useEffect(() => {
    document.title = titleOf(agent) + " - agenthost";
    localStorage.setItem("agent", name);
  }, [name]);
  return html`<div class="chat ${files ? "with-files" : ""} ${listed ? "list" : ""}">
    <aside aria-label=${t("chat.sessions")}>
      <label class="field">${t("chat.agent")}<select onChange=${(e) => go(to("chat", e.target.value))}>${agents.map((a) => html`<option value=${a.name} selected=${a.name === name}>${titleOf(a)}</option>`)}</select></label>
      <a class="button plain" href=${to("chat", name)} onClick=${() => { if (!currentPlace().segments[2]) key.current.n++; }}>${t("chat.new")}</a>
      <${Sessions} agent=${name} current=${now} version=${version} onState=${setState} />
    </aside>
    <${Talk} key=${name + " " + key.current.n} agent=${agent} session=${session} files=${files} setFiles=${setFiles} state=${state} onChange=${(id) => {
      key.current.session = id;
      setNow(id);
      setVersion((v) => v + 1);
    }} />
    ${files && html`<aside class="files" aria-label=${t("files.title")}><${Files} agent=${name} close=${() => setFiles(false)} /></aside>`}
  </div>`;
}

export function Chat({ place }) {
  const [, name, session] = place.segments;
  const state = useLoad(() => all("/api/v1/agents"));
  const last = localStorage.getItem("agent");
  const chosen = state.data && !name && (state.data.find((a) => a.name === last) || state.data.find((a) => a.isDefault) || state.data[0]);
  useEffect(() => { const here = currentPlace().segments; // the user may have left
    if (chosen && here[0] === "chat" && !here[1]) go(to("chat", chosen.name), { replace: true }); }, [chosen]);
  return html`<${Loaded} state=${state}>${(agents) => {
    if (!agents.length) {
      return html`<${Page} title=${t("page.chat")}><${Empty} text=${canWrite() ? t("chat.no_agent") : t("chat.no_agent_member")}>
        ${canWrite() && html`<a class="button primary" href=${to("agents") + "?create=1"}>${t("start.agent_action")}</a>`}</${Empty}></${Page}>`;
    }
    if (!name) return null;
    if (!agents.some((a) => a.name === name)) return html`<${Page} title=${t("error.not_found")}><p>${t("chat.no_such_agent", { name })}</p></${Page}>`;
    return html`<${AgentChat} key=${name} agents=${agents} name=${name} session=${session || ""} listed=${place.query.get("list") === "1"} />`;
  }}</${Loaded}>`;
}
