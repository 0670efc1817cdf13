// SPDX-License-Identifier: Apache-2.0
// The server now and in the last minutes, from /metrics, and its last requests. It
// asks for the former while the page is to be seen, so that the minutes before the view was
// opened are there.
import { getText } from "./api.js";
import { LineChart } from "./charts.js";
import { byId, element } from "./elements.js";
import { Reading, mean, rate } from "./metrics.js";
import { TimeLines } from "./time_lines.js";

const LONGEST = 300;  // seconds of the axis, which grows with the readings
const SHORTEST = 60;
const CLOSEST = 1;  // seconds between readings that are compared
const MS_BETWEEN_READINGS = 2000;
const TIERS = ["device", "host", "disk"];

export class LiveView {
  constructor() {
    this.readings = [];
    this.timer = 0;
    this.isShown = false;
    this.state = element("p", { class: "state", role: "status" });
    this.charts = {
      tokens: new LineChart("Tokens", "a second"), requests: new LineChart("Requests", ""),
      latency: new LineChart("Latency", "milliseconds, mean"), pages: new LineChart("KV pages in use", "percent of each tier"),
      sequences: new LineChart("Batches", "sequences, mean"), batchTokens: new LineChart("Batches", "tokens, mean"),
      workers: new LineChart("Workers", "running requests"), models: new LineChart("Models", "tokens a second"),
    };
    this.timeLines = new TimeLines();
    this.tiers = element("section", { class: "panel" });
    this.workers = element("section", { class: "panel" });
    byId("live").append(this.state, element("div", { class: "panels" },
      ...Object.values(this.charts).map((chart) => chart.node), this.tiers, this.workers, this.timeLines.node));
    document.addEventListener("visibilitychange", () => this.follow());
    addEventListener("resize", () => this.draw());
  }

  show(isShown) {
    this.isShown = isShown;
    this.follow();
  }

  follow() {
    clearTimeout(this.timer);
    if (!document.hidden) this.read(this.isShown);
  }

  // asks: for a key, if the server wants one. The readings that follow don't.
  async read(asks = false) {
    try {
      this.add(new Reading(await getText("/metrics", asks), Date.now() / 1000));
      this.state.hidden = true;
      if (this.isShown) await this.timeLines.read();
    } catch (error) {
      this.state.textContent = `The server does not answer: ${error.message}`;
      this.state.hidden = false;
    }
    clearTimeout(this.timer);
    if (!document.hidden) this.timer = setTimeout(() => this.read(), MS_BETWEEN_READINGS);
  }

  add(reading) {
    if (this.readings.length > 0 && reading.time - this.readings.at(-1).time < CLOSEST) return this.draw();
    this.readings = [...this.readings.filter(({ time }) => time > reading.time - LONGEST), reading];
    this.draw();
  }

  draw() {
    const reading = this.readings.at(-1);
    if (!reading || !this.isShown) return;
    const { charts } = this;
    const seconds = Math.round(Math.min(LONGEST, Math.max(SHORTEST, reading.time - this.readings[0].time)));
    charts.tokens.draw([
      this.line("generated", this.rateOf("generation_tokens_total")), this.line("prompt, computed", this.rateOf("computed_prompt_tokens_total")),
      this.line("prompt, cached", this.rateOf("cached_prompt_tokens_total"))], reading.time, seconds);
    charts.requests.draw([
      this.line("running", (now) => now.value("num_requests_running")), this.line("waiting", (now) => now.value("num_requests_waiting"))], reading.time, seconds);
    charts.latency.draw([
      this.line("first token", millisecondsOf("time_to_first_token_seconds")), this.line("next token", millisecondsOf("inter_token_latency_seconds"))], reading.time, seconds);
    charts.pages.draw(TIERS.map((tier) => this.line(tier, (now) => 100 * shareInUse(now, tier))), reading.time, seconds);
    charts.sequences.draw([this.line("sequences", meanOf("iteration_sequences"))], reading.time, seconds);
    charts.batchTokens.draw([this.line("tokens", meanOf("iteration_tokens"))], reading.time, seconds);
    charts.workers.draw(reading.values("by_worker_up", "worker").map((worker) => this.line(
      `worker ${worker}`, (now) => now.value("by_worker_requests_running", { worker }))), reading.time, seconds);
    charts.models.draw(reading.values("generation_tokens_total", "model_name").map((model) => this.line(
      model, this.rateOf("generation_tokens_total", { model_name: model }))), reading.time, seconds);
    this.showTiers(reading);
    this.showWorkers(reading);
  }

  rateOf(name, labels) { return (now, before) => (before ? rate(before, now, name, labels) : null); }

  line(name, value) {
    return { name, points: this.readings.map((now, at) => ({ time: now.time, value: value(now, this.readings[at - 1]) })) };
  }

  showTiers(reading) {
    const rows = TIERS.map((tier) => {
      const pages = (state) => reading.value("kv_pages", { tier, state });
      return [tier, pages("running"), pages("cached"), pages("free"), reading.value("kv_pages_capacity", { tier })];
    });
    this.tiers.replaceChildren(element("h2", {}, "KV pages", element("small", {}, `of ${reading.value("kv_page_tokens") / countModels(reading)} tokens`)),
      table(["tier", "running", "cached", "free", "in all"], rows));
  }

  showWorkers(reading) {
    const before = this.readings.at(-2);
    const rows = reading.values("by_worker_up", "worker").map((worker) => [
      worker, reading.value("by_worker_up", { worker }) ? "up" : "down", reading.value("by_worker_requests_running", { worker }),
      reading.value("by_worker_batches_in_flight", { worker }), Math.round(rate(before, reading, "by_worker_iterations_total", { worker })),
      reading.value("by_worker_restarts_total", { worker })]);
    this.workers.replaceChildren(element("h2", {}, "Workers"), table(["worker", "", "running", "in flight", "batches/s", "restarts"], rows));
  }
}

const countModels = (reading) => Math.max(1, reading.values("kv_page_tokens", "model_name").length);

const meanOf = (name) => (now, before) => mean(before, now, name);

function millisecondsOf(name) {
  return (now, before) => {
    const seconds = mean(before, now, name);
    return seconds === null ? null : 1000 * seconds;
  };
}

function shareInUse(reading, tier) {
  const capacity = reading.value("kv_pages_capacity", { tier });
  return capacity > 0 ? 1 - reading.value("kv_pages", { tier, state: "free" }) / capacity : 0;
}

function table(head, rows) {
  const row = (tag, cells) => element("tr", {}, ...cells.map((cell) => element(tag, {}, typeof cell === "number" ? cell.toLocaleString() : cell)));
  return element("div", { class: "wide" }, element("table", {}, element("thead", {}, row("th", head)), element("tbody", {}, ...rows.map((cells) => row("td", cells)))));
}
