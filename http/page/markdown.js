// SPDX-License-Identifier: Apache-2.0
// Shows what a model wrote. Markdown becomes nodes, everything else stays text: HTML is
// shown as it was written, images are links, links lead to http, https and mailto only.
import { element } from "./elements.js";
import { splitBlocks } from "./markdown_blocks.js";

const MAX_INLINE = 20_000;  // characters; longer ones are plain text
const MAX_DEPTH = 6;
const MAX_CLOSERS = 50;  // that are looked at for one opening mark
const MAX_ADDRESS = 2000;
const sources = new WeakMap();

// Blocks that are as they were keep their nodes, so a long answer is cheap to stream and a
// selection in it stays.
export function showMarkdown(container, text) {
  const blocks = splitBlocks(text);
  blocks.forEach((block, at) => {
    const old = container.childNodes[at];
    if (old && sources.get(old) === block.source) return;
    const node = nodeOf(block, 0);
    sources.set(node, block.source);
    if (old) old.replaceWith(node);
    else container.append(node);
  });
  while (container.childNodes.length > blocks.length) container.lastChild.remove();
}

function nodeOf(block, depth) {
  switch (block.kind) {
    case "heading": return element(`h${Math.min(block.level + 1, 6)}`, {}, ...inline(block.text));
    case "rule": return element("hr");
    case "code": return codeOf(block);
    case "quote": return element("blockquote", {}, ...nodesOf(block.text, depth));
    case "list": return listOf(block, depth);
    case "table": return tableOf(block);
    default: return element("p", {}, ...inline(block.text));
  }
}

const nodesOf = (text, depth) => splitBlocks(text, depth + 1).map((block) => nodeOf(block, depth + 1));

function codeOf({ language, text }) {
  const copy = element("button", {
    type: "button", class: "copy",
    onclick: () => navigator.clipboard?.writeText(text).then(() => { copy.textContent = "Copied"; }),
  }, "Copy");
  return element("div", { class: "code" },
    element("div", { class: "bar" }, element("span", {}, language), copy),
    element("pre", { tabindex: "0" }, element("code", {}, text)));
}

function listOf({ isOrdered, start, items }, depth) {
  const nodes = items.map((text) => {
    const blocks = nodesOf(text, depth);
    if (blocks[0]?.tagName === "P") blocks.splice(0, 1, ...blocks[0].childNodes);  // no gap behind the marker
    return element("li", {}, ...blocks);
  });
  return isOrdered ? element("ol", { start: String(start) }, ...nodes) : element("ul", {}, ...nodes);
}

function tableOf({ head, rows }) {
  const row = (tag, cells) => element("tr", {}, ...cells.map((cell) => element(tag, {}, ...inline(cell))));
  return element("div", { class: "wide", tabindex: "0" },
    element("table", {}, element("thead", {}, row("th", head)), element("tbody", {}, ...rows.map((cells) => row("td", cells)))));
}

function inline(text, depth = 0) {
  if (text.length > MAX_INLINE || depth > MAX_DEPTH) return [text];
  const nodes = [];
  let plain = "";
  for (let at = 0; at < text.length;) {
    const found = inlineAt(text, at, depth);
    if (!found) {
      plain += text[at];
      at += 1;
      continue;
    }
    if (plain) nodes.push(plain);
    plain = "";
    nodes.push(found.node);
    at = found.end;
  }
  if (plain) nodes.push(plain);
  return nodes;
}

// What begins at `at`, and where it ends; null if that is only a character.
function inlineAt(text, at, depth) {
  switch (text[at]) {
    case "\\": return /[!-/:-@[-`{-~]/.test(text[at + 1] ?? "") ? { node: text[at + 1], end: at + 2 } : null;
    case "`": return codeSpan(text, at);
    case "*": case "_": case "~": return emphasis(text, at, depth);
    case "!": return text[at + 1] === "[" ? link(text, at + 1, depth, "image: ") : null;
    case "[": return link(text, at, depth, "");
    case "\n": return text.slice(at - 2, at) === "  " ? { node: element("br"), end: at + 1 } : null;
    case "h": return bareLink(text, at);
    default: return null;
  }
}

function codeSpan(text, at) {
  const ticks = /^`+/.exec(text.slice(at, at + 8))[0];
  const end = text.indexOf(ticks, at + ticks.length);
  if (end < 0) return null;
  return { node: element("code", {}, text.slice(at + ticks.length, end).trim()), end: end + ticks.length };
}

const TAGS = { "**": "strong", "__": "strong", "*": "em", "_": "em", "~~": "del" };
const isWord = (character) => character !== undefined && /[\p{L}\p{N}]/u.test(character);

function emphasis(text, at, depth) {
  const mark = text[at + 1] === text[at] ? text.slice(at, at + 2) : text[at];
  const from = at + mark.length;
  if (!TAGS[mark] || /\s/.test(text[from] ?? " ")) return null;
  if (mark[0] === "_" && isWord(text[at - 1])) return null;
  let end = text.indexOf(mark, from + 1);
  for (let tries = 0; end > 0 && tries < MAX_CLOSERS; end = text.indexOf(mark, end + 1), tries += 1) {
    if (/\s/.test(text[end - 1]) || (mark[0] === "_" && isWord(text[end + mark.length]))) continue;
    if (mark.length === 1 && (text[end + 1] === mark || text[end - 1] === mark)) continue;  // of a double one
    return { node: element(TAGS[mark], {}, ...inline(text.slice(from, end), depth + 1)), end: end + mark.length };
  }
  return null;
}

function link(text, at, depth, label) {
  const close = text.indexOf("](", at);
  if (close < 0) return null;
  let open = 1;
  let end = close + 2;
  for (const most = end + MAX_ADDRESS; end < Math.min(text.length, most) && open > 0 && text[end] !== "\n"; end += 1) open += text[end] === "(" ? 1 : text[end] === ")" ? -1 : 0;
  const address = safeAddress(text.slice(close + 2, end - 1).trim().split(/\s/)[0]);
  if (open > 0 || !address) return null;
  return { node: anchor(address, label, ...inline(text.slice(at + 1, close), depth + 1)), end };
}

function bareLink(text, at) {
  if (isWord(text[at - 1]) || !/^https?:\/\//.test(text.slice(at, at + 8))) return null;
  const written = /^[^\s<>"`]+/.exec(text.slice(at, at + MAX_ADDRESS))[0].replace(/[.,:;!?)\]'*_]+$/, "");
  const address = safeAddress(written);
  return address && { node: anchor(address, written), end: at + written.length };
}

const anchor = (href, ...children) => element("a", { href, target: "_blank", rel: "noopener noreferrer" }, ...children);

function safeAddress(text) {
  try {
    const address = new URL(text);
    return ["http:", "https:", "mailto:"].includes(address.protocol) ? address.href : null;
  } catch {
    return null;  // relative, or none
  }
}
