// SPDX-License-Identifier: Apache-2.0
// Text files of the next message: picked, dropped anywhere on the page, or pasted. Their texts
// are read here and go with the question; what is no text is refused.
import { byId, element, notify } from "./elements.js";

const MAX_FILES = 10;
const MAX_BYTES = 512_000;  // of all of a message
// Besides tab, line ends, form feed and escape, which texts and logs of terminals have.
const CONTROL = /[\0-\x08\x0b\x0e-\x1a\x1c-\x1f]/;

export const sizeOf = (length) => (length < 1000 ? `${length} B` : `${(length / 1000).toFixed(length < 10_000 ? 1 : 0)} kB`);

export class Files {
  constructor() {
    this.list = [];  // { name, text, size }
    const picker = byId("pick");
    byId("attach").addEventListener("click", () => picker.click());
    picker.addEventListener("change", async () => {
      await this.add(picker.files);
      picker.value = "";  // the same file can be picked again
    });
    byId("question").addEventListener("paste", (event) => {
      if (event.clipboardData.files.length === 0) return;
      event.preventDefault();
      this.add(event.clipboardData.files);
    });
    addEventListener("dragover", (event) => this.onDrag(event, true));
    addEventListener("dragleave", (event) => { if (!event.relatedTarget) this.onDrag(event, false); });
    addEventListener("drop", (event) => {
      if (this.onDrag(event, false)) this.add(event.dataTransfer.files);
    });
  }

  // False: what is dragged is not a file, or nothing can be written now.
  onDrag(event, isOver) {
    if (!event.dataTransfer?.types.includes("Files")) return false;
    event.preventDefault();  // else the browser opens the file in place of the page
    const takes = !byId("chat").hidden && !document.querySelector("dialog[open]");
    byId("composer").classList.toggle("dropping", isOver && takes);
    return takes;
  }

  async add(files) {
    const problems = [];
    for (const file of [...files]) {
      try {
        this.list.push(await this.read(file));
      } catch (error) {
        problems.push(error.message);
      }
      this.show();
    }
    if (problems.length > 0) notify(problems.join(" "));
    byId("question").focus();
  }

  // Throws an Error that says why it can't be attached.
  async read(file) {
    const room = MAX_BYTES - this.list.reduce((sum, { size }) => sum + size, 0);
    if (this.list.length >= MAX_FILES) throw new Error(`${file.name} is not attached: a message has ${MAX_FILES} files at most.`);
    if (file.size > room) throw new Error(`${file.name} is too large: the files of a message have ${sizeOf(MAX_BYTES)} at most.`);
    const bytes = new Uint8Array(await file.arrayBuffer().catch(() => { throw new Error(`${file.name} can't be read: is it a folder?`); }));
    const text = textOf(bytes);
    if (text === null) throw new Error(`${file.name} is not text: other files can't be attached.`);
    if (!text.trim()) throw new Error(`${file.name} is empty.`);
    return { name: file.name.replace(/\s+/g, " "), text, size: bytes.length };
  }

  show() {
    byId("files").replaceChildren(...this.list.map((file) => element("li", {},
      element("span", { title: file.name }, file.name), element("small", {}, sizeOf(file.size)),
      element("button", { type: "button", class: "icon", "aria-label": `Remove ${file.name}`, onclick: () => this.remove(file) }, "×"))));
    byId("files").hidden = this.list.length === 0;
  }

  remove(file) {
    this.list = this.list.filter((other) => other !== file);
    this.show();
    byId("question").focus();
  }

  // They are in the message from now on: [{ name, text }].
  take() {
    const taken = this.list.map(({ name, text }) => ({ name, text }));
    this.list = [];
    this.show();
    return taken;
  }
}

// Null: it is not text.
function textOf(bytes) {
  const mark = (bytes[0] << 8) | bytes[1];
  const encoding = mark === 0xfffe ? "utf-16le" : mark === 0xfeff ? "utf-16be" : "utf-8";
  try {
    const text = new TextDecoder(encoding, { fatal: true }).decode(bytes);
    return CONTROL.test(text) ? null : text;
  } catch {
    return null;
  }
}
