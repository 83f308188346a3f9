"use strict";
const element = (id) => document.getElementById(id);
let token = ""; // the access token is only in memory

// call sends a request to the hub. It throws an Error with the message of the response, and with
// the faults of its fields.
async function call(method, path, body) {
  const headers = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (token) headers.Authorization = "Bearer " + token;
  let response, text;
  try {
    response = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), cache: "no-store", redirect: "error" });
    text = await response.text();
  } catch {
    throw new Error("The hub cannot be reached: check the connection, and try again.");
  }
  let result = {};
  try {
    result = JSON.parse(text);
  } catch { /* 204 has no body */ }
  if (response.ok) return result;
  const wait = response.headers.get("Retry-After");
  const error = new Error((result.message || "The hub responded with status " + response.status + ".") + (wait ? " Try again in " + wait + " s." : ""));
  error.fields = (result.data && result.data.fields) || {};
  error.code = result.code;
  throw error;
}

// show displays one section.
function show(id) {
  for (const section of document.querySelectorAll("main > section")) section.hidden = section.id !== id;
  const first = id === "done" ? null : element(id).querySelector("input:not([hidden])");
  if (first) first.focus();
}

// problem displays a message in place of a form.
function problem(message) {
  element("problem-text").textContent = message;
  show("problem");
}

// onSubmit calls do with the values of a form, and displays its error next to the fields.
function onSubmit(id, act) {
  const form = element(id), button = form.querySelector("button"), summary = form.querySelector("[role=alert]");
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    summary.textContent = "";
    for (const input of form.querySelectorAll("input")) input.removeAttribute("aria-invalid");
    button.disabled = true;
    try {
      await act(Object.fromEntries(new FormData(form)));
    } catch (error) {
      const lines = [];
      for (const [name, fault] of Object.entries(error.fields || {})) {
        const input = form.elements.namedItem(name);
        if (input) input.setAttribute("aria-invalid", "true");
        lines.push((input && input.labels && input.labels[0] ? input.labels[0].textContent : name) + " " + fault + ".");
      }
      summary.textContent = lines.length ? lines.join(" ") : error.message;
      const wrong = form.querySelector("[aria-invalid=true]");
      if (wrong) wrong.focus();
    } finally {
      button.disabled = false;
    }
  });
  const reveal = form.querySelector("input[type=checkbox]");
  if (reveal) {
    reveal.addEventListener("change", () => {
      for (const input of form.querySelectorAll("[autocomplete$=password]")) input.type = reveal.checked ? "text" : "password";
    });
  }
}

// fragment returns a parameter of the fragment, which browsers do not send to a server.
const fragment = (name) => new URLSearchParams(location.hash.slice(1)).get(name) || "";
const clearFragment = () => history.replaceState(null, "", location.pathname);

// title sets the heading of the page and of its tab.
function title(text) {
  document.querySelector("h1").textContent = text;
  document.title = text + " - agenthost";
}

// signedIn displays what to do next after a login.
async function signedIn(login, password) {
  clearFragment();
  token = login.access_token;
  if (login.must_change_password) {
    title("Change your password");
    element("account").value = login.user.username; // for password managers
    element("old").value = password;
    show("change");
    return;
  }
  const user = login.user;
  element("who").textContent = "You are signed in as " + user.username + ", " + user.role + " of the organization " + user.tenant_id + ".";
  for (const part of document.querySelectorAll("[data-roles]")) part.hidden = !part.dataset.roles.split(" ").includes(user.role);
  title("Your account");
  show("done");
  try {
    const agents = (await call("GET", "/api/v1/agents?page_size=100")).items;
    element("agents").replaceChildren(...agents.map((agent) => {
      const item = document.createElement("li");
      item.textContent = agent.title ? agent.title + " (" + agent.name + ")" : agent.name;
      return item;
    }));
    element("no-agents").hidden = agents.length > 0;
  } catch (error) {
    element("no-agents").textContent = error.message;
    element("no-agents").hidden = false;
  }
}

onSubmit("change-form", async (input) => {
  await call("POST", "/auth/change-password", { old_password: input.old_password, new_password: input.new_password });
  const user = await call("GET", "/auth/userinfo");
  await signedIn({ access_token: token, user });
});
onSubmit("token-form", async (input) => {
  const issued = await call("POST", "/api/v1/cli/issue-token", { name: input.name, expiresInDays: 90 });
  element("token").textContent = issued.token;
  element("command").textContent = "curl -H 'Authorization: Bearer " + issued.token + "' " + location.origin + "/api/v1/agents";
  element("issued").hidden = false;
});
onSubmit("invite-form", async (input) => {
  const invite = await call("POST", "/api/v1/admin/invites", { role: input.role });
  element("invite").textContent = invite.url;
  element("invited").hidden = false;
});
element("sign-out").addEventListener("click", async () => {
  try {
    await call("POST", "/auth/logout");
  } catch { /* the session may have ended */ }
  token = "";
  location.assign("/console/login");
});
