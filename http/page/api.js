// SPDX-License-Identifier: Apache-2.0
// Requests to the server that this page came from, with its key.
import { readEvents } from "./event_stream.js";
import { askForKey, key } from "./key.js";

export class ApiError extends Error {
  constructor(status, error) {
    super(error?.message ?? `the server answered ${status}`);
    this.status = status;
    this.code = error?.code ?? "";
  }
}

// Throws ApiError, or what fetch() throws. asks: a refused key is asked for again.
async function send(path, { method = "GET", body, signal, asks = true } = {}) {
  for (;;) {
    const used = key();
    const headers = {};
    if (used) headers.Authorization = `Bearer ${used}`;
    if (body) headers["Content-Type"] = "application/json";
    const response = await fetch(path, { method, headers, signal, body: body && JSON.stringify(body) });
    if (response.ok) return response;
    if (response.status === 401 && (key() !== used || (asks && await askForKey()))) continue;
    throw new ApiError(response.status, await response.json().then((json) => json.error, () => null));
  }
}

export const getJson = async (path, asks) => (await send(path, { asks })).json();
export const getText = async (path, asks) => (await send(path, { asks })).text();
export const remove = (path) => send(path, { method: "DELETE" });
export const cancelResponse = (id) => send(`/v1/responses/${id}/cancel`, { method: "POST" });

export async function* streamEvents(path, body, signal) {
  yield* readEvents(await send(path, { method: "POST", body, signal }));
}

// The events of a response in the background behind number `after`.
export async function* followEvents(id, after, signal) {
  const behind = after < 0 ? "" : `&starting_after=${after}`;
  yield* readEvents(await send(`/v1/responses/${id}?stream=true${behind}`, { signal }));
}

// Which models generate text, and whether the server keeps conversations.
export async function describeServer() {
  const models = (await getJson("/v1/models")).data;
  const health = await getJson("/health").catch(() => ({}));
  return {
    models: models.filter((model) => model.capabilities.includes("completion")).map((model) => model.id),
    keeps: health.store?.state === "ok",
  };
}
