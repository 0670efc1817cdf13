// SPDX-License-Identifier: Apache-2.0
// Messages of a conversation, which become the shapes of the two APIs: { role: "user", content },
// { role: "assistant", content, calls: [{ id, name, arguments }] } and { role: "tool",
// results: [{ id, output }] }, which answer calls. Files go in front of a question's text and
// are found in it again.

const FILE = /^\[File: ([^\n]*)\]\n(`{3,})\n([\s\S]*?)\n\2(?:\n\n|$)/;

// The text of a question with its files: [{ name, text }].
export function withFiles(question, files = []) {
  return [...files.map(({ name, text }) => `[File: ${name}]\n${fenceFor(text)}\n${text}\n${fenceFor(text)}`), question].join("\n\n");
}

// No run of backticks in the text is as long.
function fenceFor(text) {
  const longest = (text.match(/`+/g) ?? []).reduce((most, run) => Math.max(most, run.length), 2);
  return "`".repeat(longest + 1);
}

export function splitFiles(text) {
  const files = [];
  for (let found = FILE.exec(text); found; found = FILE.exec(text)) {
    files.push({ name: found[1], text: found[3] });
    text = text.slice(found[0].length);
  }
  return { question: text, files };
}

// The input of /v1/responses.
export function asItems(messages) {
  return messages.flatMap(({ role, content, calls = [], results = [] }) => {
    if (role === "tool") return results.map(({ id, output }) => ({ type: "function_call_output", call_id: id, output }));
    const items = calls.map((call) => ({ type: "function_call", call_id: call.id, name: call.name, arguments: call.arguments }));
    return content || items.length === 0 ? [{ role, content }, ...items] : items;
  });
}

// The messages of /v1/chat/completions.
export function asChat(messages) {
  return messages.flatMap(({ role, content, calls = [], results = [] }) => {
    if (role === "tool") return results.map(({ id, output }) => ({ role, tool_call_id: id, content: output }));
    if (calls.length === 0) return { role, content };
    const made = calls.map((call) => ({ id: call.id, type: "function", function: { name: call.name, arguments: call.arguments } }));
    return { role, content: content || null, tool_calls: made };
  });
}

// Reads tools that a person has written, as JSON: functions in the shape of either API, or bare.
// Throws an Error that says what is wrong.
export function readTools(text) {
  if (!text.trim()) return [];
  const list = JSON.parse(text);
  if (!Array.isArray(list)) throw new Error("a list of functions is expected: [{\"name\": …, \"parameters\": …}]");
  return list.map((given) => {
    const { name, description, parameters, strict } = given?.function ?? given ?? {};
    if (typeof name !== "string" || !/^[\w-]{1,64}$/.test(name)) throw new Error("each function needs a \"name\" of letters, digits, _ and -");
    return { name, description, parameters, strict };
  });
}
