// SPDX-License-Identifier: Apache-2.0
// A line chart of the last minutes, with a legend that says the newest values.
import { element } from "./elements.js";

const HEIGHT = 150;  // pixels
const LEFT = 44;
const BOTTOM = 18;
const TOP = 8;
const DASH = 3;

export function shape(tag, attributes, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

export function short(value) {
  if (value === null || value === undefined) return "–";
  if (value >= 1e6) return `${(value / 1e6).toFixed(1)}M`;
  if (value >= 1e4) return `${(value / 1e3).toFixed(0)}k`;
  if (value >= 100 || Number.isInteger(value)) return Math.round(value).toLocaleString();
  return value.toPrecision(2);
}

// Of the axis: 1, 2 or 5 times a power of ten; of counts, at least 2.
function topOf(values) {
  const highest = values.reduce((high, value) => Math.max(high, value), 0);
  if (highest <= 2 && values.every(Number.isInteger)) return 2;
  const power = 10 ** Math.floor(Math.log10(highest));
  return [1, 2, 5, 10].map((step) => step * power).find((top) => top >= highest * 0.999);
}

export class LineChart {
  constructor(title, unit) {
    this.title = title;
    this.drawing = shape("svg", { role: "img", height: HEIGHT });
    this.legend = element("ul", { class: "legend" });
    this.node = element("section", { class: "panel" },
      element("h2", {}, title, element("small", {}, unit)), this.drawing, this.legend);
  }

  // lines: { name, points: [{ time, value or null }] }. seconds: of the axis.
  draw(lines, now, seconds) {
    const width = this.drawing.clientWidth;
    this.drawing.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    const top = topOf(lines.flatMap(({ points }) => points.map(({ value }) => value ?? 0)));
    const x = (time) => width - ((now - time) / seconds) * (width - LEFT);
    const y = (value) => TOP + (1 - value / top) * (HEIGHT - TOP - BOTTOM);
    const marks = [0, 0.5, 1].map((share) => shape("g", { class: "mark" },
      shape("line", { x1: LEFT, x2: width, y1: y(share * top), y2: y(share * top) }),
      shape("text", { x: LEFT - 6, y: y(share * top) + 4, "text-anchor": "end" }, short(share * top))));
    const times = shape("g", { class: "mark" },
      shape("text", { x: LEFT, y: HEIGHT - 3 }, seconds < 120 ? `${seconds} s ago` : `${Math.round(seconds / 60)} min ago`),
      shape("text", { x: width, y: HEIGHT - 3, "text-anchor": "end" }, "now"));
    this.drawing.replaceChildren(...marks, times,
      ...lines.map(({ points }, at) => shape("path", { class: `line colour-${at % 6}`, d: path(points, x, y) })));
    this.drawing.setAttribute("aria-label", `${this.title}: ${lines.map((line) => `${line.name} ${newest(line)}`).join(", ")}`);
    this.legend.replaceChildren(...lines.map((line, at) => element("li", {},
      element("i", { class: `colour-${at % 6}` }), `${line.name} `, element("b", {}, newest(line)))));
  }
}

const newest = ({ points }) => short(points.at(-1)?.value);

// A line begins with a dash, so that a value between two that are missing is seen, too.
function path(points, x, y) {
  let isDrawing = false;
  return points.map(({ time, value }) => {
    const step = value === null ? "" : isDrawing ? `L${x(time).toFixed(1)} ${y(value).toFixed(1)}` : `M${(x(time) - DASH).toFixed(1)} ${y(value).toFixed(1)}h${DASH}`;
    isDrawing = value !== null;
    return step;
  }).join("");
}
