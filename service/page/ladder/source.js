/** CUDA source with line numbers and coloured syntax. */

import { make } from "../dom.js";

/** A comment, a directive of the preprocessor, a string, or a word of the language. */
const TOKEN =
  /(\/\/[^\n]*|\/\*[\s\S]*?\*\/)|(^[ \t]*#[^\n]*)|("(?:[^"\\\n]|\\.)*")|\b(auto|bool|break|case|class|const|constexpr|continue|do|double|else|enum|extern|float|for|if|inline|int|long|namespace|return|short|sizeof|static|struct|switch|template|typename|unsigned|using|void|while|__\w+__)\b/gm;
const NAMES = ["comment", "directive", "string", "word"]; // by the groups of TOKEN

/** The source of a file; `label` names it. */
export function showSource(text, label) {
  const code = make("code", {});
  let end = 0;
  for (const match of text.matchAll(TOKEN)) {
    code.append(text.slice(end, match.index));
    const name = NAMES[match.slice(1).findIndex((part) => part !== undefined)];
    code.append(make("span", { className: name, textContent: match[0] }));
    end = match.index + match[0].length;
  }
  code.append(text.slice(end));
  const count = text.trimEnd().split("\n").length;
  const numbers = Array.from({ length: count }, (_, index) => index + 1).join("\n");
  return make(
    "div",
    { className: "source", tabIndex: 0, role: "region", "aria-label": label },
    make("pre", { className: "lines", "aria-hidden": "true", textContent: numbers }),
    make("pre", {}, code),
  );
}
