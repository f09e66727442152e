// Makes boxes that scroll sideways (a wide table or block of code on a narrow screen) reachable and scrollable by keyboard, marks the
// section that is being read in the sidebar, and opens the sidebar of a narrow screen by keyboard.
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

document.addEventListener("DOMContentLoaded", () => {
  const links = [...document.querySelectorAll(".sidebar-tree .sections a")], bar = document.querySelector(".sidebar-scroll");
  const sections = links.map((link) => document.getElementById(decodeURIComponent(link.hash.slice(1))));
  const markSection = () => {
    const read = sections.findLastIndex((section) => section.getBoundingClientRect().top < 120);
    const last = Math.ceil(scrollY + innerHeight) >= document.documentElement.scrollHeight && scrollY > 0;
    links.forEach((link, i) => {
      if (i !== (last ? links.length - 1 : read)) link.removeAttribute("aria-current");
      else if (!link.hasAttribute("aria-current")) {
        link.setAttribute("aria-current", "location");
        const at = link.getBoundingClientRect(), seen = bar.getBoundingClientRect();
        if (at.top < seen.top || at.bottom > seen.bottom) bar.scrollTop += at.top - (seen.top + seen.bottom) / 2;
      }
    });
  };
  if (links.length) {
    window.addEventListener("scroll", markSection, { passive: true });
    window.addEventListener("resize", markSection);
    window.addEventListener("load", markSection);
  }

  const open = document.getElementById("__navigation"), button = document.querySelector(".nav-overlay-icon");
  if (!open || !button) return; // the page for the PDF has neither
  const set = (opened) => {
    open.checked = opened;
    button.setAttribute("aria-expanded", String(opened));
  };
  for (const [name, value] of [["tabindex", "0"], ["role", "button"], ["aria-label", "Chapters and sections"]]) button.setAttribute(name, value);
  set(false);
  open.addEventListener("change", () => set(open.checked));
  button.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    set(!open.checked);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !open.checked) return;
    set(false);
    button.focus();
  });
  links.forEach((link) => link.addEventListener("click", () => set(false)));
});
