// SPDX-License-Identifier: Apache-2.0
// The last requests, each with a line of its phases, from their spans. One that runs has no
// spans yet: they come when it has ended.
import { getJson } from "./api.js";
import { shape, short } from "./charts.js";
import { element } from "./elements.js";
import { key } from "./key.js";

const MOST = 40;  // requests
const WIDTH = 1000;  // units of a line
const LATE_NS = 5_000_000_000n;  // by which a request may be told of after one that ended later
const PHASES = ["encode", "queue", "admit", "load", "prefill", "decode", "suspended"];
const FACTS = [
  ["gen_ai.usage.input_tokens", "prompt tokens"], ["gen_ai.usage.cache_read.input_tokens", "of them cached"],
  ["gen_ai.usage.output_tokens", "tokens generated"], ["gen_ai.response.finish_reasons", "ended with"], ["error.type", "error"],
  ["http.route", "path"], ["troupe.request_id", "request"],
];
const DETAILS = [
  ["troupe.worker.id", "worker"], ["troupe.batches", "batches"], ["troupe.batches.mean_sequences", "sequences a batch"],
  ["troupe.cached_tokens", "tokens cached"], ["troupe.computed_tokens", "computed"], ["troupe.tokens_from_host", "from the host"],
  ["troupe.tokens_from_disk", "from the disk"], ["troupe.recomputed_tokens", "computed again"],
];

export class TimeLines {
  constructor() {
    this.requests = new Map();  // span id: { root, phases, node, line, start, end }
    this.newest = 0n;
    this.state = element("p", { class: "state" });
    this.list = element("div", { class: "requests" });
    this.axis = element("select", { "aria-label": "Where lines begin", onchange: () => this.draw() },
      element("option", { value: "own" }, "each from its own start"), element("option", { value: "clock" }, "by the clock"));
    this.node = element("section", { class: "panel whole" },
      element("div", { class: "row" }, element("h2", {}, "Requests", element("small", {}, "the last that ended")), element("span", { class: "space" }), this.axis),
      element("ul", { class: "legend" }, ...PHASES.map((phase) => element("li", {}, element("i", { class: `phase-${phase}` }), phase))),
      this.state, this.list);
  }

  async read() {
    if (this.keyOf !== key()) {  // another tenant's are no longer shown
      Object.assign(this, { requests: new Map(), newest: 0n, keyOf: key() });
      this.list.replaceChildren();
    }
    try {
      const after = this.newest > LATE_NS ? this.newest - LATE_NS : 0n;
      const answer = await getJson(`/traces?limit=${MOST}&after=${after}`, false);
      this.add(answer.resourceSpans[0].scopeSpans[0].spans);
      this.state.textContent = this.requests.size === 0 ? "No request has ended yet." : "";
    } catch (error) {
      this.state.textContent = `There are no time lines: ${error.message}`;
    }
    this.state.hidden = this.state.textContent === "";
  }

  // A request's root is followed by its phases.
  add(spans) {
    let request = null;
    let isChanged = false;
    for (const span of spans) {
      if (span.kind === 2) {
        request = this.requests.has(span.spanId) ? null : this.requestOf(span);
        if (request) this.requests.set(span.spanId, request);
        isChanged ||= request !== null;
      } else if (request) {
        request.phases.push(span);
      }
    }
    if (isChanged) this.draw();
  }

  requestOf(root) {
    const end = BigInt(root.endTimeUnixNano);
    if (end > this.newest) this.newest = end;
    return { root, phases: [], node: null, start: BigInt(root.startTimeUnixNano), end };
  }

  draw() {
    const shown = [...this.requests.values()].sort((a, b) => (a.end < b.end ? 1 : a.end > b.end ? -1 : 0)).slice(0, MOST);
    this.requests = new Map(shown.map((request) => [request.root.spanId, request]));
    if (shown.length === 0) return;
    const isOwn = this.axis.value === "own";
    const first = shown.reduce((low, { start }) => (start < low ? start : low), shown[0].start);
    const longest = shown.reduce((most, { start, end }) => Math.max(most, Number(end - (isOwn ? start : first))), 1);
    for (const request of shown) {
      request.node ??= nodeOf(request);
      drawLine(request, isOwn ? request.start : first, longest);
    }
    const nodes = shown.map(({ node }) => node);
    for (const old of [...this.list.children]) if (!nodes.includes(old)) old.remove();
    // Moving a node would take the focus off it.
    nodes.forEach((node, at) => { if (this.list.children[at] !== node) this.list.insertBefore(node, this.list.children[at] ?? null); });
  }
}

function nodeOf(request) {
  const { root, phases } = request;
  const has = attributesOf(root);
  request.line = shape("svg", { viewBox: `0 0 ${WIDTH} 10`, preserveAspectRatio: "none", "aria-hidden": "true" });
  const duration = `${tookOf(root)} ms`;
  const said = phases.map((phase) => `${phase.name} ${tookOf(phase)} ms`).join(", ");
  const isWrong = root.status?.code === 2;
  return element("details", { class: isWrong ? "request wrong" : "request" },
    element("summary", { "aria-label": `${root.name}, ${duration}: ${said}` },
      element("span", { class: "name" }, root.name), request.line, element("span", { class: "duration" }, duration)),
    element("dl", {}, ...factsOf(root, has).flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)])),
    element("div", { class: "wide" }, element("table", {},
      element("thead", {}, rowOf("th", ["phase", "after, ms", "took, ms", ""])),
      element("tbody", {}, ...phases.map((phase) => rowOf("td", [phase.name, sinceOf(root, phase), tookOf(phase), detailsOf(phase)]))))));
}

const rowOf = (tag, cells) => element("tr", {}, ...cells.map((cell) => element(tag, {}, cell)));

function factsOf(root, has) {
  const ended = new Date(Number(BigInt(root.endTimeUnixNano) / 1_000_000n)).toLocaleTimeString();
  const facts = FACTS.filter(([key]) => has[key] !== undefined).map(([key, name]) => [name, String(has[key])]);
  if (root.status?.message) facts.push(["because", root.status.message]);
  return [["ended at", ended], ...facts];
}

function detailsOf(phase) {
  const has = attributesOf(phase);
  return DETAILS.filter(([key]) => has[key] !== undefined && (has[key] !== 0 || key === "troupe.worker.id"))
    .map(([key, name]) => `${name} ${short(has[key])}`).join(", ");
}

function drawLine({ root, phases, line }, from, longest) {
  const place = (span) => ({
    x: (Number(BigInt(span.startTimeUnixNano) - from) / longest) * WIDTH,
    width: Math.max(1, (Number(BigInt(span.endTimeUnixNano) - BigInt(span.startTimeUnixNano)) / longest) * WIDTH),
  });
  line.replaceChildren(shape("rect", { class: "whole", y: 4, height: 2, ...place(root) }),
    ...phases.map((phase) => shape("rect", { class: PHASES.includes(phase.name) ? `phase-${phase.name}` : "whole", y: 0, height: 10, ...place(phase) })));
}

// Milliseconds.
const between = (from, to) => Number(BigInt(to) - BigInt(from)) / 1e6;
const tookOf = (span) => short(between(span.startTimeUnixNano, span.endTimeUnixNano));
const sinceOf = (root, phase) => short(between(root.startTimeUnixNano, phase.startTimeUnixNano));

// OTLP's values, each in an object that tells its type.
function attributesOf({ attributes }) {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, valueOf(value)]));
}

function valueOf({ stringValue, intValue, doubleValue, boolValue, arrayValue }) {
  if (intValue !== undefined) return Number(intValue);
  if (arrayValue) return arrayValue.values.map(valueOf).join(", ");
  return stringValue ?? doubleValue ?? boolValue;
}
