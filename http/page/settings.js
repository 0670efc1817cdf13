// SPDX-License-Identifier: Apache-2.0
// The system prompt and the tools of a conversation, and how answers are drawn; what is empty is
// the model's default.
import { element } from "./elements.js";
import { readTools } from "./messages.js";

const NAME = "troupe.settings";
const NUMBERS = [
  { name: "temperature", label: "Temperature", min: 0, max: 2, step: 0.05 },
  { name: "top_p", label: "Top p", min: 0, max: 1, step: 0.01 },
  { name: "top_k", label: "Top k", min: -1, step: 1 },
  { name: "min_p", label: "Min p", min: 0, max: 1, step: 0.01 },
  { name: "max_tokens", label: "Most tokens", min: 1, step: 1 },
  { name: "seed", label: "Seed", min: 0, step: 1 },
  { name: "presence_penalty", label: "Presence penalty", min: -2, max: 2, step: 0.1 },
  { name: "frequency_penalty", label: "Frequency penalty", min: -2, max: 2, step: 0.1 },
  { name: "repetition_penalty", label: "Repetition penalty", min: 0.1, step: 0.05 },
];
const EXAMPLE = `[{"name": "weather", "description": "Of a city, today", "parameters":
  {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}]`;
const KEYS = [["Enter", "send"], ["Shift+Enter", "new line"], ["Escape", "stop the answer"], ["↑ in an empty message", "edit the last one"],
  ["Alt+N", "new chat"], ["/", "write a message"]];

// Those that were set, by the API's names.
export function settings() {
  try {
    const kept = JSON.parse(localStorage.getItem(NAME)) ?? {};
    return Object.fromEntries(NUMBERS.filter(({ name }) => typeof kept[name] === "number").map(({ name }) => [name, kept[name]]));
  } catch {
    return {};  // not ours
  }
}

// Calls back with { system, tools, mustCall } when the person is done.
export function openSettings({ system, tools = [], mustCall = false }, onDone) {
  const present = settings();
  const prompt = element("textarea", { rows: "4", id: "system" });
  prompt.value = system;
  const written = element("textarea", { rows: "4", id: "tools", spellcheck: "false", placeholder: EXAMPLE });
  written.value = tools.length > 0 ? JSON.stringify(tools, null, 2) : "";
  written.addEventListener("input", () => written.setCustomValidity(""));
  const demand = element("input", { type: "checkbox", id: "must-call", checked: mustCall });
  const inputs = NUMBERS.map(({ name, label, ...limits }) => element("label", {}, label,
    element("input", { type: "number", name, placeholder: "default", value: present[name], ...limits })));
  const form = element("form", {
    onsubmit: (event) => {
      event.preventDefault();
      let read;
      try {
        read = readTools(written.value);
      } catch (error) {
        written.setCustomValidity(`These are no tools: ${error.message}`);
        return written.reportValidity();
      }
      const fields = [...new FormData(form)].filter(([, value]) => value !== "").map(([name, value]) => [name, Number(value)]);
      localStorage.setItem(NAME, JSON.stringify(Object.fromEntries(fields)));
      dialog.close();
      onDone({ system: prompt.value, tools: read, mustCall: demand.checked });
    },
  },
  element("h2", {}, "Settings"),
  element("label", {}, "System prompt of this conversation", prompt),
  element("label", {}, "Tools of this conversation: functions, as JSON. You give the results.", written),
  element("label", { class: "check" }, demand, "A question must be answered by one call"),
  element("h3", {}, "Sampling"),
  element("div", { class: "fields" }, ...inputs),
  element("details", {}, element("summary", {}, "Keys"),
    element("dl", {}, ...KEYS.flatMap(([keys, does]) => [element("dt", {}, element("kbd", {}, keys)), element("dd", {}, does)]))),
  element("div", { class: "row" },
    element("button", { type: "button", onclick: () => { for (const input of form.querySelectorAll("input[type=number]")) input.value = ""; } }, "Defaults"),
    element("span", { class: "space" }),
    element("button", { type: "button", onclick: () => dialog.close() }, "Cancel"),
    element("button", { class: "main" }, "Done")));
  const dialog = element("dialog", { onclose: () => dialog.remove(), "aria-label": "Settings" }, form);
  document.body.append(dialog);
  dialog.showModal();
}
