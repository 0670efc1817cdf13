// SPDX-License-Identifier: Apache-2.0
// The chat: a list of conversations, the turns of one, and where the next one is written.
import { answer, begunAnswer, splitReasoning } from "./answers.js";
import { cancelResponse, describeServer } from "./api.js";
import {
  addTurn, ancestors, deleteConversation, listConversations, loadTexts, newConversation, openConversation, pathOf, promptOf,
  saveConversation, select, siblings,
} from "./conversations.js";
import { byId, element, notify } from "./elements.js";
import { Files } from "./files.js";
import { openSettings, settings } from "./settings.js";
import { TurnView } from "./turn_view.js";

const MODEL = "troupe.model";
const EXAMPLE = "Ask something. What you write is answered by the server that this page came from.";
// Said to those who listen to the page.
const ENDS = { completed: "The answer is complete.", cut: "The answer was cut off.", stopped: "The answer was stopped.", failed: "There is no answer." };
const MS_BETWEEN_UPDATES = 60;
const NEAR_END = 80;  // pixels

export class ChatView {
  constructor() {
    this.conversation = newConversation();
    this.views = new Map();    // turn id: TurnView, of the conversation that is shown
    this.running = new Map();  // turn id: { conversation, controller }
    this.keeps = false;
    this.box = byId("question");
    this.files = new Files();
    byId("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
    byId("stop").addEventListener("click", () => this.stop());
    byId("new").addEventListener("click", () => this.begin());
    byId("model").addEventListener("change", (event) => localStorage.setItem(MODEL, event.target.value));
    byId("open-settings").addEventListener("click", () => openSettings(this.conversation, (changed) => {
      Object.assign(this.conversation, changed);
      if (this.conversation.title) this.save(this.conversation);
    }));
    this.box.addEventListener("keydown", (event) => this.onKey(event));
    this.box.addEventListener("input", () => this.fitBox());
    addEventListener("pagehide", () => { for (const { conversation } of this.running.values()) this.save(conversation); });
    this.show();
  }

  async connect() {
    try {
      const { models, keeps } = await describeServer();
      this.keeps = keeps;
      byId("model").replaceChildren(...models.map((name) => element("option", { value: name }, name)));
      const kept = localStorage.getItem(MODEL);
      if (models.includes(kept)) byId("model").value = kept;
      if (models.length === 0) notify("This server has no model that generates text.");
    } catch (error) {
      notify(`The server can't be asked for its models: ${error.message}`);
    }
  }

  begin() {
    this.conversation = newConversation(this.conversation);
    history.replaceState(null, "", "#chat");
    this.show();
    this.box.focus();
  }

  // False: there is no such conversation here.
  async open(id) {
    const under = [...this.running.values()].find((entry) => entry.conversation.id === id)?.conversation;
    const conversation = under ?? openConversation(id);
    if (!conversation) return false;
    this.conversation = conversation;
    history.replaceState(null, "", `#chat/${id}`);
    this.show();
    for (const turn of Object.values(conversation.turns))
      if (turn.status === "running" && !this.running.has(turn.id)) this.follow(conversation, turn, this.returnTo);
    await this.load();
    return true;
  }

  // Fetches the texts of the turns that are shown.
  async load() {
    const { conversation } = this;
    await loadTexts(pathOf(conversation));
    if (conversation === this.conversation) for (const view of this.views.values()) view.update();
    this.scrollToEnd();
  }

  show() {
    const path = pathOf(this.conversation);
    const on = {
      edit: (turn, question) => this.ask(turn.parent, { ...turn, question }),
      regenerate: (turn) => this.ask(turn.parent, turn),
      answerCalls: (turn, results) => this.ask(turn.id, { question: "", results }),
      select: (turn) => this.choose(turn),
    };
    this.views = new Map(path.map((turn, at) => [
      turn.id, new TurnView(turn, { variants: siblings(this.conversation, turn.parent), next: path[at + 1] }, on)]));
    byId("turns").replaceChildren(...[...this.views.values()].map((view) => view.node));
    if (path.length === 0) byId("turns").append(element("p", { class: "empty" }, EXAMPLE));
    document.title = this.conversation.title ? `${this.conversation.title} – troupe` : "troupe";
    this.showList();
    this.showState();
    this.scrollToEnd();
  }

  showList() {
    byId("conversations").replaceChildren(...listConversations().map(({ id, title }) => element("li", {},
      element("a", { href: `#chat/${id}`, "aria-current": id === this.conversation.id ? "page" : null, title }, title),
      element("button", { type: "button", class: "icon", "aria-label": `Delete ${title}`, onclick: () => this.remove(id, title) }, "×"))));
  }

  showState() {
    const isRunning = this.shownRun() !== undefined;
    byId("stop").hidden = !isRunning;
    byId("send").hidden = isRunning;
  }

  shownRun() {
    return [...this.running.values()].find(({ conversation }) => conversation.id === this.conversation.id);
  }

  choose(turn) {
    select(this.conversation, turn);
    this.save(this.conversation);
    this.show();
    this.load();
  }

  async remove(id, title) {
    if (!confirm(`Delete "${title}", here and on the server?`)) return;
    for (const run of this.running.values()) if (run.conversation.id === id) return notify("Stop its answer first.");
    try {
      await deleteConversation(id);
    } catch (error) {
      notify(`It is not deleted: ${error.message}`);
    }
    if (id === this.conversation.id && !openConversation(id)) this.begin();
    else this.showList();
  }

  save(conversation) {
    try {
      saveConversation(conversation);
    } catch (error) {
      notify(`The browser does not keep this conversation: ${error.message}`);
    }
  }

  async submit() {
    const question = this.box.value;
    const isEmpty = !question.trim() && this.files.list.length === 0;
    if (isEmpty || this.shownRun()) return;
    if (!byId("model").value) await this.connect();  // the server was not ready
    if (!byId("model").value) return;
    this.box.value = "";
    this.fitBox();
    this.ask(pathOf(this.conversation).at(-1)?.id ?? null, { question, files: this.files.take() });
  }

  // A new turn below another one, or first. asked: as addTurn() wants it.
  async ask(parent, asked) {
    if (this.shownRun()) return notify("Stop the answer first.");
    const { conversation } = this;
    const turn = addTurn(conversation, parent, asked, byId("model").value);
    history.replaceState(null, "", `#chat/${conversation.id}`);
    this.show();
    await this.follow(conversation, turn, this.run);
  }

  // Until the answer ends, which is by `run` or a failure of it.
  async follow(conversation, turn, run) {
    const controller = new AbortController();
    this.running.set(turn.id, { conversation, controller });
    this.save(conversation);
    this.showState();
    try {
      await run.call(this, conversation, turn, controller.signal);
    } catch (error) {
      turn.status = controller.signal.aborted ? "stopped" : "failed";
      if (!controller.signal.aborted) turn.problem = error.message;
      else if (turn.begun) cancelResponse(turn.begun).catch(() => {});  // it is over, or the server is
    }
    delete turn.begun;
    this.running.delete(turn.id);
    byId("heard").textContent = ENDS[turn.status];
    this.save(conversation);
    this.updateTurn(turn);
    this.showState();
    this.showList();
  }

  async run(conversation, turn, signal) {
    try {
      await this.stream(conversation, turn, this.keeps, signal);
    } catch (error) {
      // Expired, or of another key: the texts that are here will do.
      if (error.code !== "previous_response_not_found") throw error;
      const above = ancestors(conversation, turn);
      await loadTexts(above);
      for (const other of above) other.isStored = false;
      await this.stream(conversation, turn, this.keeps, signal);
    }
  }

  async stream(conversation, turn, keeps, signal) {
    if (!keeps) await loadTexts(ancestors(conversation, turn));
    const { messages, previous } = promptOf(conversation, turn, keeps, ({ answer: text }) => splitReasoning(text ?? "").text);
    const { system, tools, mustCall } = conversation;
    const asked = { model: turn.model, system, tools, mustCall, settings: settings(), messages, previous, keeps };
    await this.write(answer(asked, signal), conversation, turn);
  }

  // The page was loaded anew while the server answered.
  async returnTo(conversation, turn, signal) {
    turn.answer = turn.reasoning = "";
    turn.calls = [];
    try {
      await this.write(begunAnswer(turn.begun, signal), conversation, turn);
    } catch (error) {
      if (error.status !== 404) throw error;
      // Its events are gone; if it was completed it is stored.
      Object.assign(turn, { status: "completed", responseId: turn.begun, isStored: true, answer: undefined });
      await loadTexts([turn]);
    }
  }

  async write(pieces, conversation, turn) {
    let shown = 0;
    for await (const piece of pieces) {
      if (piece.begun && piece.begun !== turn.begun) {
        turn.begun = piece.begun;
        this.save(conversation);
      }
      turn.answer += piece.text ?? "";
      turn.reasoning += piece.reasoning ?? "";
      if (piece.call) addToCall(turn.calls, piece.call);
      if (piece.end) this.finish(turn, piece.end);
      if (performance.now() - shown < MS_BETWEEN_UPDATES) continue;
      this.updateTurn(turn);
      shown = performance.now();
    }
  }

  finish(turn, { id, isStored, isCut, tokens, rate }) {
    turn.status = isCut ? "cut" : "completed";
    Object.assign(turn, { responseId: isStored ? id : null, isStored, tokens, rate });
  }

  updateTurn(turn) {
    const view = this.views.get(turn.id);
    if (!view) return;
    const turns = byId("turns");
    const isAtEnd = turns.scrollHeight - turns.scrollTop - turns.clientHeight < NEAR_END;
    view.update();
    if (isAtEnd) this.scrollToEnd();
  }

  stop() { this.shownRun()?.controller.abort(); }

  scrollToEnd() { byId("turns").scrollTop = byId("turns").scrollHeight; }

  fitBox() {
    this.box.style.height = "auto";
    this.box.style.height = `${this.box.scrollHeight + 2}px`;
  }

  onKey(event) {
    if (event.isComposing) return;
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      this.submit();
    } else if (event.key === "ArrowUp" && this.box.value === "") {
      event.preventDefault();
      [...this.views.values()].at(-1)?.edit();
    }
  }
}

// at: of the call among all that the answer has.
function addToCall(calls, { at, id, name, added }) {
  let call = calls.find((other) => other.at === at);
  if (!call) calls.push(call = { at, id, name, arguments: "" });
  call.arguments += added;
}
