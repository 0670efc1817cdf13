// SPDX-License-Identifier: Apache-2.0
// One answer, streamed: from the server's kept conversations (/v1/responses), or without
// them (/v1/chat/completions).
import { ApiError, followEvents, streamEvents } from "./api.js";
import { asChat, asItems } from "./messages.js";

const MS_BEFORE_RETURN = 1000;
const RETURNS = 300;  // of one answer, without an event between them
const ENDS = new Set(["response.completed", "response.incomplete"]);

// asked: { model, system, tools, mustCall, settings, messages, previous, keeps }; messages are
// those after the response `previous`. Yields { begun: id } of a response that goes on without
// the page, { text }, { reasoning }, { call: { at, id, name, added } } of a call's beginning or
// more of its arguments, and at the end { end: { id, isStored, isCut, tokens, rate } }.
export function answer(asked, signal) {
  return asked.keeps ? keptAnswer(asked, signal) : plainAnswer(asked, signal);
}

function sampling(settings, maxTokens) {
  const { max_tokens: limit, ...rest } = settings;
  return limit === undefined ? rest : { ...rest, [maxTokens]: limit };
}

// A demand counts for a question: behind results it would never end. It is for one call: small models that must call
// repeat it until their context is full, and the person writes each result.
function toolFields({ tools = [], mustCall, messages }, shapeOf) {
  if (tools.length === 0) return {};
  const isDemanded = mustCall && messages.at(-1).role === "user";
  const choice = isDemanded ? { tool_choice: "required", parallel_tool_calls: false } : { tool_choice: "auto" };
  return { tools: tools.map(shapeOf), ...choice };
}

async function* keptAnswer({ model, system, settings, messages, previous, ...rest }, signal) {
  const body = {
    model, stream: true, background: true, input: asItems(messages), ...sampling(settings, "max_output_tokens"),
    ...toolFields({ messages, ...rest }, (tool) => ({ type: "function", ...tool })),
  };
  if (system) body.instructions = system;
  if (previous) body.previous_response_id = previous;
  yield* persistent(streamEvents("/v1/responses", body, signal), null, signal);
}

// An answer that was begun before the page was loaded anew, from its beginning.
export const begunAnswer = (id, signal) => persistent(followEvents(id, -1, signal), id, signal);

// Comes back where it was when the connection or the server ends.
async function* persistent(events, id, signal) {
  let last = -1;
  for (let returns = 0; returns <= RETURNS; ++returns) {
    try {
      for await (const event of events) {
        last = event.sequence_number ?? last;
        returns = 0;
        if (event.type === "response.created") yield { begun: id = event.response.id };
        else yield* pieces(event);
        if (ENDS.has(event.type)) return;
      }
    } catch (error) {
      const mayReturn = !(error instanceof ApiError) || error.status === 503;
      if (!id || signal.aborted || !mayReturn) throw error;
    }
    if (!id) break;
    await new Promise((done) => setTimeout(done, MS_BEFORE_RETURN));
    signal.throwIfAborted();
    events = followEvents(id, last, signal);
  }
  throw new Error("the connection ended before the answer did");
}

function* pieces(event) {
  if (event.type === "response.output_text.delta") yield { text: event.delta };
  if (event.type === "response.reasoning_text.delta") yield { reasoning: event.delta };
  if (event.type === "response.output_item.added" && event.item.type === "function_call")
    yield { call: { at: event.output_index, id: event.item.call_id, name: event.item.name, added: "" } };
  if (event.type === "response.function_call_arguments.delta") yield { call: { at: event.output_index, added: event.delta } };
  if (event.type === "error") throw new ApiError(200, event.error ?? event);
  if (event.type === "response.failed") throw new ApiError(200, event.response.error);
  if (event.type === "response.cancelled") throw new ApiError(200, { message: "the answer was stopped elsewhere" });
  if (event.type === "response.completed" || event.type === "response.incomplete") {
    const { response } = event;
    yield {
      end: {
        id: response.id, isStored: response.store === true, isCut: event.type === "response.incomplete",
        tokens: response.usage?.output_tokens, rate: response.timings?.tokens_per_second,
      },
    };
  }
}

async function* plainAnswer({ model, system, settings, messages, ...rest }, signal) {
  const said = asChat(messages);
  const body = {
    model, stream: true, stream_options: { include_usage: true }, ...sampling(settings, "max_tokens"),
    messages: system ? [{ role: "system", content: system }, ...said] : said,
    ...toolFields({ messages, ...rest }, (tool) => ({ type: "function", function: tool })),
  };
  const end = { id: null, isStored: false, isCut: false };
  let isComplete = false;
  for await (const chunk of streamEvents("/v1/chat/completions", body, signal)) {
    if (chunk.error) throw new ApiError(200, chunk.error);
    const choice = chunk.choices?.[0];
    if (choice?.delta?.reasoning_content) yield { reasoning: choice.delta.reasoning_content };
    if (choice?.delta?.content) yield { text: choice.delta.content };
    for (const call of choice?.delta?.tool_calls ?? [])
      yield { call: { at: call.index, id: call.id, name: call.function?.name, added: call.function?.arguments ?? "" } };
    if (choice?.finish_reason) {
      isComplete = true;
      end.isCut = choice.finish_reason === "length";
    }
    end.tokens = chunk.usage?.completion_tokens ?? end.tokens;
    end.rate = chunk.timings?.tokens_per_second ?? end.rate;
  }
  if (!isComplete) throw new Error("the connection ended before the answer did");
  yield { end };
}

// Reasoning that a kept answer has in its text, between <think> and </think>. Some templates
// write the opening themselves.
export function splitReasoning(text) {
  const end = text.indexOf("</think>");
  const begin = text.indexOf("<think>");
  const opens = text.trimStart().startsWith("<think>");
  if (!opens && (end < 0 || (begin >= 0 && begin < end))) return { reasoning: "", text };
  const from = opens ? begin + 7 : 0;
  if (end < 0) return { reasoning: text.slice(from), text: "" };
  return { reasoning: text.slice(from, end), text: text.slice(end + 8).trimStart() };
}
