// SPDX-License-Identifier: Apache-2.0
// Makes nodes. Text is always a text node: nothing here reads HTML.

// properties: attributes; functions under on… are listeners; true is an empty attribute,
// false and null are none. children: nodes and texts.
export function element(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export const byId = (id) => document.getElementById(id);

let hiding = 0;

// A sentence at the top of the page, for ten seconds.
export function notify(text) {
  const notice = byId("notice");
  notice.textContent = text;
  notice.hidden = false;
  clearTimeout(hiding);
  hiding = setTimeout(() => { notice.hidden = true; }, 10_000);
}
