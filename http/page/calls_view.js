// SPDX-License-Identifier: Apache-2.0
// The calls of tools in an answer, each with its result. A call without one has a box for it:
// the person is the tool.
import { element } from "./elements.js";

export class CallsView {
  // onAnswer: called with the results of all calls, [{ id, output }].
  constructor(onAnswer) {
    this.onAnswer = onAnswer;
    this.node = element("div", { class: "calls" });
    this.shown = "";
  }

  // results: those given, or undefined. mayAnswer: the calls are all there, and the last of the
  // conversation. Boxes stay as they are while nothing changes.
  update(calls = [], results, mayAnswer) {
    const isAsking = mayAnswer && !results;
    const now = JSON.stringify([calls, results, isAsking]);
    if (now === this.shown) return;
    this.shown = now;
    this.boxes = [];
    this.node.replaceChildren(...calls.map((call) => this.callOf(call, results?.find(({ id }) => id === call.id), isAsking)));
    if (isAsking && calls.length > 0) {
      this.node.append(element("div", { class: "row" }, element("span", { class: "space" }),
        element("button", { type: "button", class: "main", onclick: () => this.send() }, calls.length > 1 ? "Send the results" : "Send the result")));
    }
  }

  callOf(call, result, isAsking) {
    return element("section", { class: "call", "aria-label": `Call of ${call.name}` },
      element("div", { class: "bar" }, "Call of ", element("b", {}, call.name)),
      element("pre", { tabindex: "0" }, element("code", {}, laidOut(call.arguments))),
      result ? this.resultOf(result) : isAsking ? this.boxOf(call) : null);
  }

  resultOf({ output }) {
    return element("div", { class: "result" }, element("div", { class: "bar" }, "Result"),
      element("pre", { tabindex: "0" }, element("code", {}, laidOut(output))));
  }

  boxOf(call) {
    const box = element("textarea", { rows: "2", "aria-label": `Result of ${call.name}`, placeholder: "The result, which you give for the tool" });
    box.addEventListener("keydown", (event) => {
      if (event.isComposing || event.key !== "Enter" || event.shiftKey) return;
      event.preventDefault();
      this.send();
    });
    this.boxes.push({ id: call.id, box });
    return element("div", { class: "result" }, box);
  }

  send() {
    const empty = this.boxes.find(({ box }) => !box.value.trim());
    if (empty) return empty.box.focus();
    this.onAnswer(this.boxes.map(({ id, box }) => ({ id, output: box.value })));
  }
}

// JSON with its lines, other text as it is.
function laidOut(text) {
  try {
    const value = JSON.parse(text);
    // Numbers and keys that JavaScript would change stay as they were written.
    const isSame = JSON.stringify(value) === text.replace(/("(?:[^"\\]|\\.)*")|\s+/g, "$1");
    return isSame ? JSON.stringify(value, null, 2) : text;
  } catch {
    return text;
  }
}
