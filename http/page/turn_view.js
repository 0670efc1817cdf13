// SPDX-License-Identifier: Apache-2.0
// One turn on the page: the question, the answer and what can be done with them.
import { splitReasoning } from "./answers.js";
import { CallsView } from "./calls_view.js";
import { element } from "./elements.js";
import { sizeOf } from "./files.js";
import { showMarkdown } from "./markdown.js";

const STATES = {
  stopped: "Stopped.", cut: "Cut off: the most tokens, or the end of the context.", lost: "The server no longer has this turn.",
};

export class TurnView {
  // variants: the turns that have the same one above them. next: the turn below, or none.
  // on: { edit(turn, question), regenerate(turn), select(turn), answerCalls(turn, results) }
  constructor(turn, { variants, next }, on) {
    this.turn = turn;
    this.next = next;
    this.on = on;
    this.question = element("div", { class: "question" });
    this.reasoning = element("div", { class: "markdown" });
    this.folded = element("details", { class: "reasoning" }, element("summary", {}, "Reasoning"), this.reasoning);
    this.answer = element("div", { class: "answer markdown" });
    this.calls = new CallsView((results) => on.answerCalls(turn, results));
    this.state = element("p", { class: "state" });
    this.numbers = element("span", { class: "numbers" });
    this.again = element("button", { type: "button", onclick: () => on.regenerate(turn) }, "Regenerate");
    this.editing = element("button", { type: "button", onclick: () => this.edit() }, "Edit");
    const copy = element("button", {
      type: "button", onclick: () => navigator.clipboard?.writeText(this.text()).then(() => { copy.textContent = "Copied"; }),
    }, "Copy");
    this.node = element("article", { class: "turn" },
      this.question, element("div", { class: "row tools asked" }, this.branches(variants), this.editing),
      this.folded, this.answer, this.calls.node, this.state, element("div", { class: "row tools" }, copy, this.again, this.numbers));
    this.update();
  }

  text() { return splitReasoning(this.turn.answer ?? "").text; }

  // Shows the turn as it now is.
  update() {
    const { turn } = this;
    const isRunning = turn.status === "running";
    const { reasoning, text } = turn.reasoning ? { reasoning: turn.reasoning, text: turn.answer } : splitReasoning(turn.answer ?? "");
    if (!this.node.classList.contains("edited")) this.showQuestion();
    this.folded.hidden = reasoning === "";
    showMarkdown(this.reasoning, reasoning);
    showMarkdown(this.answer, text);
    this.calls.update(turn.calls, this.next?.results, turn.status === "completed" && !this.next);
    this.node.classList.toggle("running", isRunning);
    this.answer.setAttribute("aria-busy", String(isRunning));
    this.state.textContent = turn.problem ?? STATES[turn.status] ?? "";
    this.state.classList.toggle("wrong", Boolean(turn.problem));
    this.state.hidden = this.state.textContent === "";
    this.again.disabled = this.editing.disabled = isRunning || turn.question === undefined;
    this.editing.hidden = this.hasResults();
    const rate = turn.rate ? `, ${Math.round(turn.rate).toLocaleString()} tokens/s` : "";
    this.numbers.textContent = turn.tokens ? `${turn.tokens} tokens${rate}` : "";
  }

  // In place of a question, shown with the calls of the turn above.
  hasResults() { return this.turn.results?.length > 0; }

  showQuestion() {
    const { question, files = [] } = this.turn;
    this.question.hidden = this.hasResults();
    if (files.length === 0) this.question.textContent = question ?? "…";
    else if (this.question.childElementCount !== files.length) {
      this.question.replaceChildren(...files.map(({ name, text }) => element("details", { class: "file" },
        element("summary", {}, name, element("small", {}, sizeOf(new Blob([text]).size))),
        element("pre", { tabindex: "0" }, text))), question);
    }
  }

  // Between the questions, or answers, that have the same turn above them.
  branches(variants) {
    if (variants.length < 2) return null;
    const at = variants.indexOf(this.turn);
    const step = (by, sign, label) => element("button", {
      type: "button", "aria-label": label, disabled: !variants[at + by], onclick: () => this.on.select(variants[at + by]),
    }, sign);
    return element("span", { class: "branches" },
      step(-1, "‹", "Earlier version"), `${at + 1}/${variants.length}`, step(1, "›", "Later version"));
  }

  edit() {
    if (this.node.classList.contains("edited") || this.turn.question === undefined || this.hasResults()) return;
    const box = element("textarea", { rows: "3", "aria-label": "Edited message" });
    box.value = this.turn.question;
    const done = (question) => {
      this.node.classList.remove("edited");
      this.question.replaceChildren();
      this.update();
      if (question?.trim() || (question !== undefined && this.turn.files?.length > 0)) this.on.edit(this.turn, question);
    };
    box.addEventListener("keydown", (event) => {
      if (event.isComposing) return;
      if (event.key === "Escape") done();
      else if (event.key === "Enter" && !event.shiftKey) done(box.value);
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    this.node.classList.add("edited");
    this.question.replaceChildren(box, element("div", { class: "row" },
      element("span", { class: "space" }),
      element("button", { type: "button", onclick: () => done() }, "Cancel"),
      element("button", { type: "button", class: "main", onclick: () => done(box.value) }, "Send")));
    box.focus();
  }
}
