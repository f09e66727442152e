// The tables of a class's page: sort, search, and filter students.
//
// The filter is part of the address (#mistake-3), so links and the browser's Back button work.
// Untrusted text is only ever inserted as text, never as HTML.
"use strict";

(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const rows = data.members.map((_, n) => document.getElementById(`row-${n}`));

  // --- which students are shown ------------------------------------------------------------------

  const numbers = (holds) => data.members.map((_, n) => n).filter((n) => holds(data.members[n], n));
  const listed = (one) => [one.students, one.name];
  const kinds = {
    student: (n) => [[n], data.members[n].name],
    stall: (n) => [numbers((m) => m.stalls.includes(n)), `stall at ${data.problems[n]}`],
    mistake: (n) => listed(data.mistakes[n]),
    test: (n) => [numbers((m) => m.failed.includes(n)), `failed ${data.tests[n]}`],
    problem: (n) => [numbers((m) => m.begun[n]), `began ${data.problems[n]}`],
    section: (n) => [numbers((m) => m.section === n), `section ${data.sections[n] || "without name"}`],
    bar: (n) => listed(data.bars[n]),
    time: (n) => listed(data.times[n]),
  };

  function chosen() {
    const hash = decodeURIComponent(location.hash.slice(1));
    if (hash === "late") return [numbers((m) => m.late > 0), "late"];
    if (hash.startsWith("state-")) {
      const words = hash.slice(6).replaceAll("_", " ");
      return [numbers((m) => m.state === words), words];
    }
    const [, kind, number] = /^(\w+)-(\d+)$/.exec(hash) ?? [];
    try {
      return kind in kinds ? kinds[kind](Number(number)) : null;
    } catch {
      return null; // an invalid address that somebody typed
    }
  }

  const search = document.getElementById("search");
  function show() {
    const found = chosen();
    const wanted = search.value.trim().toLocaleLowerCase();
    const these = new Set(found ? found[0] : rows.keys());
    let count = 0;
    rows.forEach((row, n) => {
      row.hidden = !these.has(n) || !data.members[n].name.toLocaleLowerCase().includes(wanted);
      count += !row.hidden;
    });
    const words = found || wanted ? `${count} ${count === 1 ? "student" : "students"}` : "";
    document.getElementById("all").dataset.shown = location.hash;
    document.getElementById("chosen").textContent = found ? `${words}: ${found[1]}` : words;
    return found;
  }
  search.addEventListener("input", show);
  addEventListener("hashchange", () => {
    search.value = "";
    if (show()) document.getElementById("students").scrollIntoView();
  });

  // --- tables ------------------------------------------------------------------------------------

  const valueOf = (row, column) => {
    const cell = row.cells[column];
    const text = cell.dataset.sort ?? cell.textContent.trim();
    return text !== "" && !Number.isNaN(Number(text)) ? Number(text) : text;
  };
  const order = (a, b) => {
    if (typeof a === "number" && typeof b === "number") return a - b;
    if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
    return a.localeCompare(b);
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    const body = table.tBodies[0];
    table.tHead.addEventListener("click", (event) => {
      const head = event.target.closest("button")?.closest("th");
      if (!head) return;
      const first = head.classList.contains("number") ? "descending" : "ascending";
      const other = first === "ascending" ? "descending" : "ascending";
      const way = head.getAttribute("aria-sort") === first ? other : first;
      for (const th of table.tHead.rows[0].cells) th.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", way);
      const sign = way === "ascending" ? 1 : -1;
      const sorted = [...body.rows].map((row) => [valueOf(row, head.cellIndex), row]);
      sorted.sort((one, two) => sign * order(one[0], two[0]));
      body.append(...sorted.map(([, row]) => row));
    });
  }

  if (show()) document.getElementById("students").scrollIntoView();
})();
