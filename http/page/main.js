// SPDX-License-Identifier: Apache-2.0
// Starts the page: the two views, which the address chooses, keys for all of it, colours.
import { ChatView } from "./chat_view.js";
import { byId } from "./elements.js";
import { LiveView } from "./live_view.js";

const THEME = "troupe.theme";

function applyTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  byId("theme").value = theme;
}

applyTheme(localStorage.getItem(THEME) ?? "");
byId("theme").addEventListener("change", ({ target }) => {
  localStorage.setItem(THEME, target.value);
  applyTheme(target.value);
});

const chat = new ChatView();
const live = new LiveView();

function openList(isOpen) {
  document.body.classList.toggle("list-open", isOpen);
  byId("open-list").setAttribute("aria-expanded", String(isOpen));
}

// #live, #chat, #chat/ID
async function follow() {
  const [view, id] = location.hash.slice(1).split("/");
  const isLive = view === "live";
  byId("chat").hidden = isLive;
  byId("live").hidden = !isLive;
  byId("to-live").toggleAttribute("aria-current", isLive);
  byId("to-chat").toggleAttribute("aria-current", !isLive);
  live.show(isLive);
  openList(false);
  if (id && id !== chat.conversation.id && !(await chat.open(id))) chat.begin();
}

byId("open-list").addEventListener("click", () => openList(!document.body.classList.contains("list-open")));
byId("new").addEventListener("click", () => openList(false));
byId("to-chat").addEventListener("click", (event) => {
  if (!chat.conversation.title) return;
  event.preventDefault();
  location.hash = `#chat/${chat.conversation.id}`;
});
addEventListener("hashchange", follow);
addEventListener("keydown", (event) => {
  const isTyping = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
  if (document.querySelector("dialog[open]")) return;
  if (event.key === "Escape") {
    openList(false);
    chat.stop();
  } else if (event.altKey && event.code === "KeyN") {
    event.preventDefault();
    location.hash = "#chat";
    chat.begin();
  } else if (event.key === "/" && !isTyping && !byId("chat").hidden) {
    event.preventDefault();
    byId("question").focus();
  }
});

await chat.connect();
await follow();
