// Makes boxes that scroll sideways (a wide table, formula or block of code on a narrow screen) reachable and scrollable by keyboard.
"use strict";
(() => {
  const BOXES = "article pre, article .table-wrapper, article .formula, article .lines";
  const nameOf = (box) => {
    const headings = [...document.querySelectorAll("article :is(h1, h2, h3)")];
    const before = headings.filter((h) => h.compareDocumentPosition(box) & Node.DOCUMENT_POSITION_FOLLOWING).pop();
    const kind = box.matches("pre") ? "Code" : box.matches(".formula") ? "Formula" : "Table";
    return before ? `${kind} in ${before.firstChild.textContent}` : kind;
  };
  const mark = () => {
    for (const box of document.querySelectorAll(BOXES)) {
      if (box.scrollWidth > box.clientWidth) {
        box.tabIndex = 0;
        box.setAttribute("role", "group");
        box.setAttribute("aria-label", nameOf(box));
      } else for (const name of ["tabindex", "role", "aria-label"]) box.removeAttribute(name);
    }
  };
  window.addEventListener("load", mark);
  window.addEventListener("resize", mark);
  document.addEventListener("toggle", mark, true); // a folded answer has no width until it is unfolded
})();
