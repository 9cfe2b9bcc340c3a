// SPDX-License-Identifier: Apache-2.0
"use strict";

// Makes elements. Texts of the run document only ever become text nodes.

// `content`: texts, elements, and null for nothing.
function element(tag, attributes = {}, ...content) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null) made.setAttribute(name, value);
  }
  made.append(...content.flat().filter((part) => part !== null));
  return made;
}

// `rows`: arrays of texts or elements; the first cell is the row's header.
function table(head, rows, attributes = {}) {
  const body = rows.map(([first, ...rest]) => element("tr", {},
    element("th", {scope: "row"}, first),
    ...rest.map((cell) => element("td", {}, cell))));
  return element("div", {class: "scroll", tabindex: "0"},
    element("table", attributes,
    head.length === 0 ? null : element("thead", {}, element("tr", {},
      ...head.map((text) => element("th", {scope: "col"}, text)))),
    element("tbody", {}, ...body)));
}

// [name, value] pairs, without those whose value is "".
function facts(pairs) {
  return element("dl", {class: "facts"}, pairs
    .filter(([, value]) => value !== "" && value !== null)
    .map(([name, value]) => element("div", {}, element("dt", {}, name),
      element("dd", {}, value))));
}

function section(title, ...content) {
  return element("section", {}, element("h2", {}, title), ...content);
}

function folded(title, ...content) {
  return element("details", {}, element("summary", {}, title), ...content);
}

function preformatted(text) {
  return element("pre", {tabindex: "0"}, text);
}
