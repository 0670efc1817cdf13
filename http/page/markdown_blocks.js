// SPDX-License-Identifier: Apache-2.0
// Markdown's blocks as values. Each line is looked at a bounded number of times, so that a
// text made to be slow is not.

const MAX_DEPTH = 6;
const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]*)/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*)$/;
const RULE = /^ {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*$/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])(?: +(.*)|)$/;
const TABLE_RULE = /^[ |:-]+$/;

// A block: { kind, source, … }; quotes and items hold lines of their own.
export function splitBlocks(text, depth = 0) {
  const lines = text.split("\n");
  const blocks = [];
  for (let at = 0; at < lines.length;) {
    if (lines[at].trim() === "") {
      at += 1;
      continue;
    }
    const [block, end] = readBlock(lines, at, depth);
    blocks.push({ ...block, source: lines.slice(at, end).join("\n") });
    at = end;
  }
  return blocks;
}

function readBlock(lines, at, depth) {
  const line = lines[at];
  const heading = HEADING.exec(line);
  if (FENCE.test(line)) return readCode(lines, at);
  if (heading) return [{ kind: "heading", level: heading[1].length, text: heading[2] }, at + 1];
  if (RULE.test(line)) return [{ kind: "rule" }, at + 1];
  if (line.startsWith(">") && depth < MAX_DEPTH) return readQuote(lines, at);
  if (ITEM.test(line) && depth < MAX_DEPTH) return readList(lines, at);
  if (isTable(lines, at)) return readTable(lines, at);
  return readParagraph(lines, at);
}

function readCode(lines, at) {
  const [, fence, language] = FENCE.exec(lines[at]);
  let end = at + 1;
  while (end < lines.length && !(lines[end].trim().startsWith(fence) && lines[end].trim().replaceAll(fence[0], "") === "")) end += 1;
  return [{ kind: "code", language, text: lines.slice(at + 1, end).join("\n") }, Math.min(end + 1, lines.length)];
}

function readQuote(lines, at) {
  let end = at;
  while (end < lines.length && lines[end].startsWith(">")) end += 1;
  return [{ kind: "quote", text: lines.slice(at, end).map((line) => line.replace(/^> ?/, "")).join("\n") }, end];
}

// Lines that are indented, or follow without an empty line, belong to the item above.
function readList(lines, at) {
  const [, margin, marker] = ITEM.exec(lines[at]);
  const isOrdered = /\d/.test(marker);
  const items = [];
  let end = at;
  for (; end < lines.length; end += 1) {
    const line = lines[end];
    const item = ITEM.exec(line);
    const indent = line.search(/\S/);
    if (item && item[1].length <= margin.length + 1) {
      if (/\d/.test(item[2]) !== isOrdered || RULE.test(line)) break;
      items.push([item[3] ?? ""]);
    } else if (indent < 0) {
      if (!continues(lines, end, margin.length)) break;
      items.at(-1).push("");
    } else if (indent > margin.length || (lines[end - 1].trim() !== "" && !FENCE.test(line) && !HEADING.test(line))) {
      items.at(-1).push(line.slice(Math.min(indent, margin.length + marker.length + 1)));
    } else {
      break;
    }
  }
  return [{ kind: "list", isOrdered, start: parseInt(marker, 10) || 1, items: items.map((item) => item.join("\n")) }, end];
}

function continues(lines, at, margin) {
  const next = lines[at + 1];
  return next !== undefined && next.trim() !== "" && (ITEM.test(next) || next.search(/\S/) > margin);
}

function isTable(lines, at) {
  return lines[at].includes("|") && at + 1 < lines.length && lines[at + 1].includes("-") && lines[at + 1].includes("|") && TABLE_RULE.test(lines[at + 1]);
}

const cellsOf = (line) => line.trim().replace(/^\|/, "").replace(/\|$/, "").split("|").map((cell) => cell.trim());

function readTable(lines, at) {
  let end = at + 2;
  while (end < lines.length && lines[end].includes("|")) end += 1;
  const head = cellsOf(lines[at]);
  const rows = lines.slice(at + 2, end).map((line) => cellsOf(line).slice(0, head.length));
  return [{ kind: "table", head, rows }, end];
}

function readParagraph(lines, at) {
  let end = at + 1;
  while (end < lines.length && lines[end].trim() !== "" && !FENCE.test(lines[end]) && !HEADING.test(lines[end]) &&
         !lines[end].startsWith(">") && !ITEM.test(lines[end]) && !isTable(lines, end)) end += 1;
  return [{ kind: "paragraph", text: lines.slice(at, end).join("\n") }, end];
}
