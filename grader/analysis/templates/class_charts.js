// The plots of a class's page, and its tables: sort, search, and filter students.
//
// The filter is part of the address (#mistake-3), so links and the browser's Back button work.
// Untrusted text is only ever inserted as text, never as HTML.
"use strict";

(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const rows = data.members.map((_, n) => document.getElementById(`row-${n}`));
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  document.body.classList.add("scripted");

  // --- which students are shown ------------------------------------------------------------------

  const numbers = (holds) => data.members.map((_, n) => n).filter((n) => holds(data.members[n], n));
  const kinds = {
    student: (n) => [[n], [data.members[n].name, data.members[n].tries].filter(Boolean).join(": ")],
    stall: (n) => [numbers((m) => m.stalls.includes(n)), `stall at ${data.problems[n]}`],
    mistake: (n) => [data.mistakes[n].students, data.mistakes[n].name],
    test: (n) => [numbers((m) => m.failed.includes(n)), `failed ${data.tests[n]}`],
    problem: (n) => [numbers((m) => m.begun[n]), `began ${data.problems[n]}`],
    section: (n) => [numbers((m) => m.section === n), `section ${data.sections[n] || "without name"}`],
    bin: (n) => [
      numbers((m) => m.points !== null && binOf(m.points) === n),
      `${bins[n].from} to ${bins[n].to} points`,
    ],
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
      const top = Number(table.dataset.top ?? Infinity);
      sorted.forEach(([, row], n) => row.classList.toggle("more", n >= top));
      body.append(...sorted.map(([, row]) => row));
    });
    if (body.querySelector(".more")) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "all";
      button.textContent = `Show all ${body.rows.length}`;
      button.addEventListener("click", () => {
        delete table.dataset.top;
        for (const row of body.rows) row.classList.remove("more");
        button.remove();
      });
      table.parentElement.after(button);
    }
  }

  // --- plots -------------------------------------------------------------------------------------

  const width = 20; // bars
  const size = Math.max(1, Math.ceil(data.max / width));
  const bins = d3.range(Math.max(1, Math.ceil(data.max / size))).map((n) => ({
    from: n * size,
    to: Math.min((n + 1) * size, Math.ceil(data.max)),
  }));
  const binOf = (points) => Math.min(bins.length - 1, Math.max(0, Math.floor(points / size)));

  // Link the marks of a plot to students: by mouse, and by keyboard too for marks with a label.
  function lead(plot, selector, to, label) {
    plot.querySelectorAll(selector).forEach((mark) => {
      const target = to(mark.__data__);
      if (!target) return;
      mark.dataset.to = target;
      mark.addEventListener("click", () => (location.hash = target));
      if (!label) return;
      mark.setAttribute("tabindex", "0");
      mark.setAttribute("role", "link");
      mark.setAttribute("aria-label", label(mark.__data__));
      mark.addEventListener("keydown", (event) => event.key === "Enter" && (location.hash = target));
    });
    return plot;
  }
  const put = (id, plot) => {
    for (const group of plot.querySelectorAll("g[aria-label]")) group.setAttribute("role", "group");
    document.getElementById(id).replaceChildren(plot);
  };
  const wide = (id) => Math.max(320, document.getElementById(id).clientWidth);

  function histogram() {
    const counts = bins.flatMap((bin, n) => {
      const here = data.members.filter((m) => m.points !== null && binOf(m.points) === n);
      const late = here.filter((m) => m.late > 0).length;
      return [
        { n, ...bin, low: 0, high: here.length - late, kind: "in time" },
        { n, ...bin, low: here.length - late, high: here.length, kind: "late" },
      ];
    });
    const bars = counts.filter((bar) => bar.high > bar.low);
    const plot = Plot.plot({
      width: wide("histogram"),
      height: 240,
      ariaLabel: "Distribution of points",
      x: { label: "points", domain: [0, Math.max(data.max, bins.length * size)] },
      y: { label: "students", grid: true, tickFormat: (n) => (Number.isInteger(n) ? n : "") },
      color: { legend: true, domain: ["in time", "late"], range: [colour("--link"), colour("--warn")] },
      marks: [
        Plot.rect(bars, {
          x1: "from", x2: "to", y1: "low", y2: "high", fill: "kind", inset: 0.5,
          title: (bar) => `${bar.high - bar.low} ${bar.kind}, ${bar.from} to ${bar.to} points`,
        }),
        Plot.ruleY([0]),
      ],
    });
    const label = (i) => `${bars[i].high - bars[i].low} ${bars[i].kind}, ${bars[i].from} to ${bars[i].to} points`;
    put("histogram", lead(plot, "g[aria-label=rect] rect", (i) => `bin-${bars[i].n}`, label));
  }

  function arrivals() {
    const timed = numbers((m) => m.hours !== null && m.score !== null);
    if (!timed.length) return;
    const dots = timed.map((n) => ({ n, days: -data.members[n].hours / 24, ...data.members[n] }));
    const plot = Plot.plot({
      width: wide("arrivals"),
      height: 240,
      ariaLabel: "Score and time of handing in of each student",
      x: { label: "days after the deadline" },
      y: { label: "score", grid: true, domain: [0, data.max] },
      marks: [
        Plot.ruleX([0], { stroke: colour("--warn") }),
        Plot.dot(dots, {
          x: "days", y: "score", r: 3, fill: colour("--link"), fillOpacity: 0.6,
          title: (one) => `${one.name}: ${one.score} points, ${Math.abs(one.hours).toFixed(1)} hours ` +
            (one.hours < 0 ? "late" : "before the deadline"),
        }),
      ],
    });
    put("arrivals", lead(plot, "g[aria-label=dot] circle", (i) => `student-${dots[i].n}`));
  }

  const draw = () => [histogram, arrivals].forEach((one) => one());
  draw();
  dark.addEventListener("change", draw);
  let drawn = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth !== drawn) draw();
    drawn = innerWidth;
  });
  if (show()) document.getElementById("students").scrollIntoView();
})();
