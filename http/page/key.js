// SPDX-License-Identifier: Apache-2.0
// The API key, where the server has keys. It is kept until the tab is closed.
import { element } from "./elements.js";

const NAME = "troupe.key";
const IS_KEY = /^[\x21-\x7e]+$/;  // as the server's
let asking = null;

export const key = () => sessionStorage.getItem(NAME) ?? "";

// Asks once, however many requests were refused. False: the person has none.
export function askForKey() {
  asking ??= ask().finally(() => { asking = null; });
  return asking;
}

function ask() {
  return new Promise((resolve) => {
    const input = element("input", { type: "password", autocomplete: "off", "aria-label": "API key", id: "key" });
    const words = element("p", {},
      key() ? "The key that was given is not known." : "It is kept until this tab is closed.");
    const dialog = element("dialog", { class: "small" },
      element("form", {
        onsubmit: (event) => {
          event.preventDefault();
          const given = input.value.trim();
          if (!given) return;
          if (!IS_KEY.test(given)) {  // no header field can hold it, so that no request would leave
            words.textContent = "A key has letters, digits and signs of ASCII, and no space.";
            return;
          }
          sessionStorage.setItem(NAME, given);
          close(true);
        },
      },
      element("h2", {}, "This server asks for a key"),
      words,
      input,
      element("div", { class: "row" },
        element("span", { class: "space" }),
        element("button", { type: "button", onclick: () => close(false) }, "Cancel"),
        element("button", { class: "main" }, "Use it"))));
    const close = (hasKey) => {
      dialog.remove();
      resolve(hasKey);
    };
    dialog.addEventListener("cancel", () => close(false));
    document.body.append(dialog);
    dialog.showModal();
  });
}
