// SPDX-License-Identifier: Apache-2.0
// Conversations as trees of turns: a question that was edited and an answer that was asked
// for again are siblings. The browser keeps the trees; texts of turns that the server has
// stored are with the server, all others with the tree.
import { getJson, remove } from "./api.js";
import { splitFiles, withFiles } from "./messages.js";

const INDEX = "troupe.conversations";
const nameOf = (id) => `troupe.conversation.${id}`;
const MAX_TITLE = 60;
const LOADS_AT_A_TIME = 4;
const MOST_RESULTS = 32;  // of one turn

const newId = () => Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(16).padStart(2, "0")).join("");

function read(name, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(name)) ?? otherwise;
  } catch {
    return otherwise;  // not ours
  }
}

// { id, title, changed } of each, the latest first.
export const listConversations = () => read(INDEX, []).sort((a, b) => b.changed - a.changed);

// like: a conversation whose settings the new one has, or none.
export const newConversation = ({ system = "", tools = [], mustCall = false } = {}) => ({
  id: newId(), title: "", system, tools, mustCall, turns: {}, selected: {},
});

// Null: there is none of this id.
export function openConversation(id) {
  const conversation = read(nameOf(id), null);
  for (const turn of Object.values(conversation?.turns ?? {}))
    if (turn.status === "running" && !turn.begun) turn.status = "stopped";  // the page was closed
  return conversation;
}

// Throws if the browser gives no more room.
export function saveConversation(conversation) {
  const turns = {};
  for (const [id, turn] of Object.entries(conversation.turns)) {
    const { question, files, results, answer, reasoning, calls, ...rest } = turn;
    turns[id] = turn.isStored ? rest : turn;
  }
  localStorage.setItem(nameOf(conversation.id), JSON.stringify({ ...conversation, turns }));
  const others = read(INDEX, []).filter((entry) => entry.id !== conversation.id);
  localStorage.setItem(INDEX, JSON.stringify([...others, { id: conversation.id, title: conversation.title, changed: Date.now() }]));
}

// Of the server too; throws and keeps it if the server can't.
export async function deleteConversation(id) {
  for (const turn of Object.values(openConversation(id)?.turns ?? {})) {
    const response = turn.responseId ?? turn.begun;
    if (!response) continue;
    await remove(`/v1/responses/${response}`).catch((error) => {
      if (error.status !== 404) throw error;
    });
  }
  localStorage.removeItem(nameOf(id));
  localStorage.setItem(INDEX, JSON.stringify(read(INDEX, []).filter((entry) => entry.id !== id)));
}

// parent: a turn's id, or null for the first one.
export const siblings = (conversation, parent) => Object.values(conversation.turns).filter((turn) => turn.parent === parent);

export function select(conversation, turn) {
  conversation.selected[turn.parent ?? "root"] = turn.id;
}

// asked: { question, files, results }; files: of the question, results: of the calls of the turn
// above, in place of a question.
export function addTurn(conversation, parent, { question, files = [], results = [] }, model) {
  const turn = {
    id: newId(), parent, question, files, results, model, answer: "", reasoning: "", calls: [], status: "running",
    responseId: null, isStored: false,
  };
  conversation.turns[turn.id] = turn;
  conversation.title ||= (question.trim() || files[0]?.name || "").slice(0, MAX_TITLE);
  select(conversation, turn);
  return turn;
}

// The turns that are shown, from the first to the last.
export function pathOf(conversation) {
  const path = [];
  for (let parent = null; ;) {
    const id = conversation.selected[parent ?? "root"];
    const turn = conversation.turns[id] ?? siblings(conversation, parent).at(-1);
    if (!turn) return path;
    path.push(turn);
    parent = turn.id;
  }
}

// The turns above one, the nearest first.
export function ancestors(conversation, turn) {
  const above = [];
  for (let next = conversation.turns[turn.parent]; next; next = conversation.turns[next.parent]) above.push(next);
  return above;
}

const askedOf = ({ question, files, results }) => (
  results?.length > 0 ? { role: "tool", results } : { role: "user", content: withFiles(question, files) });

// The prompt of a turn: the response it continues, and the messages behind that.
export function promptOf(conversation, turn, canContinue, textOf) {
  const messages = [askedOf(turn)];
  for (const above of ancestors(conversation, turn)) {
    if (canContinue && above.isStored) return { messages, previous: above.responseId };
    const text = textOf(above);
    if (text || above.calls?.length > 0) messages.unshift({ role: "assistant", content: text, calls: above.calls });
    if (above.question !== undefined) messages.unshift(askedOf(above));
  }
  return { messages, previous: null };
}

// Fetches the texts that the server has. A turn that it no longer has becomes "lost".
export async function loadTexts(turns) {
  const missing = turns.filter((turn) => turn.isStored && turn.answer === undefined);
  while (missing.length > 0) await Promise.all(missing.splice(0, LOADS_AT_A_TIME).map(loadTurn));
}

async function loadTurn(turn) {
  try {
    const path = `/v1/responses/${turn.responseId}`;
    const [response, items] = await Promise.all([getJson(path), getJson(`${path}/input_items?limit=${MOST_RESULTS}`)]);
    Object.assign(turn, splitFiles(textOfItem(items.data[0])), { results: resultsOf(items.data) });
    const textOfType = (type) => response.output.filter((item) => item.type === type).map(textOfItem).join("");
    turn.answer = textOfType("message");
    turn.reasoning = textOfType("reasoning");
    turn.calls = response.output.filter(({ type }) => type === "function_call")
      .map((item) => ({ id: item.call_id, name: item.name, arguments: item.arguments }));
    delete turn.problem;
    if (turn.status === "lost") turn.status = "completed";  // it was another key's
  } catch (error) {
    if (error.status === 404) turn.status = "lost";
    else turn.problem = error.message;
  }
}

// The results of calls among the items of an input, which come the last one first; none, if a message is the last.
function resultsOf(items) {
  const end = items.findIndex(({ type }) => type !== "function_call_output");
  return items.slice(0, end < 0 ? items.length : end).reverse().map((item) => ({ id: item.call_id, output: item.output }));
}

const textOfItem = (item) => (item?.content ?? []).map((part) => part.text ?? "").join("");
