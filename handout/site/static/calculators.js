// The calculators: read the fields, show an error below each invalid field, compute, print and draw. The formulas are in
// calculators_data.js, which is generated from handout/calculators.toml. FUNCTIONS and SHOWN do the same as those in
// handout/site/calculator_formulas.py and calculator_rounding.py; tests/handout/test_calculators_in_browser.py checks that all
// printed digits agree.
"use strict";
(() => {
  const data = window.HANDOUT_DATA;

  // --- views of a tensor, with torch's rules --------------------------------------------------------------------------------

  const contiguous = (shape) => shape.map((_, i) => FUNCTIONS.product(shape.slice(i + 1)));
  // If a view is invalid, the functions below throw an error, whose message is shown below the field.
  const dimension = (x, given) => {
    const count = x.shape.length, d = given < 0 ? given + count : given;
    if (!(d >= 0 && d < count)) throw new Error(`There is no dimension ${given}: the tensor has ${count} at this point.`);
    return d;
  };
  const cut = (x, parts) => {
    const shape = [], strides = [];
    let { offset } = x;
    if (parts.length > x.shape.length) throw new Error(`There are ${parts.length} indices, but the tensor has only ${x.shape.length} dimensions at this point.`);
    x.shape.forEach((size, i) => {
      const stride = x.strides[i];
      if (typeof parts[i] === "number") {
        const at = parts[i] < 0 ? parts[i] + size : parts[i];
        if (!(at >= 0 && at < size)) throw new Error(`Index ${parts[i]} is outside of dimension ${i}, which has the size ${size}.`);
        offset += at * stride;
        return;
      }
      const [first, last, step] = parts[i] ?? [null, null, 1];
      const place = (value, otherwise) => (value === null ? otherwise : Math.min(size, Math.max(0, value < 0 ? value + size : value)));
      const start = place(first, 0), stop = Math.max(start, place(last, size));
      offset += start * stride;
      shape.push(Math.ceil((stop - start) / step));
      strides.push(stride * step);
    });
    return { ...x, shape, strides, offset };
  };
  const reorder = (x, order) => ({ ...x, shape: order.map((d) => x.shape[d]), strides: order.map((d) => x.strides[d]) });
  const OPERATIONS = {
    cut,
    T: (x) => {
      if (x.shape.length !== 2) throw new Error("T needs exactly two dimensions. Use permute to reverse more of them, such as .permute(2, 1, 0).");
      return reorder(x, [1, 0]);
    },
    mT: (x) => {
      if (x.shape.length < 2) throw new Error("mT needs at least two dimensions.");
      return OPERATIONS.transpose(x, [-2, -1]);
    },
    transpose: (x, given) => {
      if (given.length !== 2) throw new Error("transpose takes two dimensions, such as .transpose(0, 1).");
      const [a, b] = given.map((d) => dimension(x, d)), order = x.shape.map((_, i) => i);
      [order[a], order[b]] = [b, a];
      return reorder(x, order);
    },
    permute: (x, given) => {
      const order = given.map((d) => dimension(x, d));
      if (order.length !== x.shape.length || new Set(order).size !== order.length) throw new Error(`permute takes each of the ${x.shape.length} dimensions once.`);
      return reorder(x, order);
    },
    expand: (x, given) => {
      const added = given.length - x.shape.length, shape = [], strides = [];
      if (added < 0) throw new Error(`expand takes at least ${x.shape.length} sizes, one for each dimension.`);
      for (let i = given.length - 1; i >= 0; i -= 1) {
        const size = i < added ? 1 : x.shape[i - added], wanted = given[i] === -1 && i >= added ? size : given[i];
        if (wanted < 0) throw new Error("Each size of expand must be −1 or at least 0.");
        if (wanted !== size && size !== 1) throw new Error(`Only a dimension of size 1 can be expanded, and dimension ${i - added} has the size ${size}.`);
        const stride = i >= added ? x.strides[i - added] : x.shape.length ? shape[0] * strides[0] : 0;
        shape.unshift(wanted);
        strides.unshift(wanted === size ? stride : 0);
      }
      if (FUNCTIONS.product(shape) > 1e15) throw new Error("At most 1e15 elements.");
      return { ...x, shape, strides };
    },
  };
  const whole = (text) => {
    if (!/^[-−]?\d{1,15}$/.test(text)) throw new Error(`“${text.slice(0, 20)}” is not a whole number.`);
    return Number(text.replace("−", "-"));
  };
  const part = (text) => {
    if (!text.includes(":")) return whole(text);
    const [first, last, step, ...more] = text.split(":").map((end) => end.trim());
    if (more.length) throw new Error("A slice has at most two colons, such as 1:8:2.");
    const by = step ? whole(step) : 1;
    if (by < 1) throw new Error("The step of a slice must be at least 1.");
    return [first ? whole(first) : null, last ? whole(last) : null, by];
  };
  const steps = (text) => {
    const found = [], STEP = /^\s*(?:\[([^\]]*)\]|\.(m?T)\b|\.(transpose|permute|expand)\s*\(([^)]*)\))/;
    let rest = text.replace(/^\s*x(?=\s*[.[]|\s*$)/, "");
    while (rest.trim()) {
      const match = STEP.exec(rest);
      if (!match) throw new Error(`“${rest.trim().slice(0, 20)}” is not one of [1:, ::2], .T, .mT, .transpose(0, 1), .permute(1, 0) and .expand(3, 4).`);
      const list = (inside) => inside.split(",").map((one) => one.trim()).filter((one, i, all) => one || i < all.length - 1);
      if (match[1] !== undefined) found.push(["cut", list(match[1]).map(part)]);
      else if (match[2]) found.push([match[2], []]);
      else found.push([match[3], list(match[4]).map(whole)]);
      rest = rest.slice(match[0].length);
    }
    return found;
  };

  // --- functions of the formulas ------------------------------------------------------------------------------------------

  const FUNCTIONS = {
    min: Math.min, max: Math.max, abs: Math.abs, ceil: Math.ceil, floor: Math.floor, sqrt: Math.sqrt,
    round_even: (x) => {
      if (!Number.isFinite(x)) return x;
      const below = Math.floor(x), rest = x - below;
      if (rest !== 0.5) return rest < 0.5 ? below : below + 1;
      return below % 2 === 0 ? below : below + 1;
    },
    floor_log2: (x) => {
      if (x === 0) return -Infinity;
      if (!Number.isFinite(x)) return x;
      let exponent = Math.min(1023, Math.max(-1074, Math.floor(Math.log2(x))));
      while (2 ** exponent > x) exponent -= 1;
      while (exponent < 1023 && 2 ** (exponent + 1) <= x) exponent += 1;
      return exponent;
    },
    held: (rounded, largest, noInfinity) => (Math.abs(rounded) <= largest ? rounded : Math.sign(rounded) * (noInfinity ? largest : Infinity)),
    product: (items) => items.reduce((a, b) => a * b, 1),
    viewed: (shape, view) => {
      let x = { shape, strides: contiguous(shape), offset: 0 };
      for (const [operation, given] of steps(view)) x = OPERATIONS[operation](x, given);
      let step = 1, inOrder = true;
      for (let i = x.shape.length - 1; i >= 0; i -= 1) {
        if (x.shape[i] !== 1 && x.strides[i] !== step) inOrder = false;
        step *= x.shape[i];
      }
      return { ...x, contiguous: inOrder || x.shape.includes(0) ? 1 : 0 };
    },
    dot: (a, b) => (a.length ? a.reduce((sum, x, i) => sum + x * b[i], 0) : NaN),
  };
  const FORMULAS = window.HANDOUT_FORMULAS(FUNCTIONS);

  // --- numbers as text ----------------------------------------------------------------------------------------------------

  const grouped = (digits) => digits.replace(/^-?\d+/, (whole) => whole.replace(/\B(?=(\d{3})+$)/g, ","));
  const fixed = (value, digits) => {
    // From 1e21 on, toFixed uses exponents; numbers that large are whole, so BigInt prints them exactly.
    const text = Math.abs(value) < 1e21 ? value.toFixed(digits) : BigInt(value).toString() + (digits ? "." + "0".repeat(digits) : "");
    return grouped(Number(text) === 0 ? text.replace("-", "") : text).replace("-", "−");
  };
  const scientific = (value, digits = 3) => {
    if (value === 0) return "0";
    const [mantissa, exponent] = value.toExponential(digits).split("e");
    const power = Number(exponent);
    return mantissa.replace("-", "−") + "e" + (power < 0 ? "-" + String(-power).padStart(2, "0") : power);
  };
  const SPACE = "\u00a0"; // prevents a line break between a number and its unit
  const NAMED = [[1e12, "trillion"], [1e9, "billion"], [1e6, "million"]];
  const DECIMAL_UNITS = [[1e15, "PB"], [1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"]];
  const BINARY_UNITS = [[2 ** 50, "PiB"], [2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]];
  const TIMES = [[86400, "days"], [3600, "h"], [60, "min"], [1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];
  const scaled = (value, units, digits) => {
    const found = units.find(([size]) => value >= size);
    return found ? `${fixed(value / found[0], digits)}${SPACE}${found[1]}` : "";
  };
  const SHOWN = {
    count: (v) => {
      if (v >= 1e15) return scientific(v);
      const named = scaled(v, NAMED, 2);
      return named ? `${fixed(v, 0)} (${named})` : fixed(v, v === Math.floor(v) ? 0 : 2);
    },
    integer: (v) => fixed(v, 0),
    bytes: (v, units) => {
      if (units === "bytes" || v >= 1e21) return `${v < 1e15 ? fixed(v, 0) : scientific(v)}${SPACE}B`;
      return scaled(v, units === "GiB" ? BINARY_UNITS : DECIMAL_UNITS, 3) || `${fixed(v, 0)}${SPACE}B`;
    },
    intensity: (v) => fixed(v, v >= 10 ? 1 : 2),
    percent: (v) => (v >= 1e4 ? `${scientific(v * 100)} %` : `${fixed(v * 100, v >= 0.1 ? 1 : 2)} %`),
    seconds: (v) => (v >= 1e9 * 86400 ? `${scientific(v / 86400)}${SPACE}days` : scaled(v, TIMES, 2) || `${scientific(v)}${SPACE}s`),
    billions: (v) => `${fixed(v / 1e9, 1)} billion`,
    float: (v) => {
      if (!Number.isFinite(v)) return v > 0 ? "∞" : "−∞";
      return v === Math.floor(v) && Math.abs(v) < 1e7 ? fixed(v, 0) : scientific(v, 4);
    },
    held: (v) => SHOWN.float(v),
    list: (v) => `(${v.map((item) => item.toFixed(0)).join(", ")}${v.length === 1 ? "," : ""})`,
    yes: (v) => (v ? "yes" : "no"),
    bound: (v) => (v ? "compute" : "memory"),
  };
  const display = (value, show, units) => (typeof value === "number" && !Number.isFinite(value) && show !== "held" ? "–" : SHOWN[show](value, units));

  // --- reading a field: { value } or { wrong: the message } -----------------------------------------------------------------

  const NUMBER = /^[-−+]?(\d{1,3}([, _]\d{3})+|\d+)?(\.\d*)?(e[-−+]?\d+)?$/i;
  // Accepts sizes as people write them: 4k, 1.3B, 15T, 70 billion. Suffixes with an i are powers of 1024.
  const SUFFIX = /^(.*\d\.?)\s*(k|m|b|g|t|ki|mi|gi|ti|thousand|million|billion|trillion)$/i;
  const POWERS = { k: 3, m: 6, b: 9, g: 9, t: 12 };
  const plain = (text) => (NUMBER.test(text) && /\d/.test(text) ? Number(text.replace(/[, _]/g, "").replace(/−/g, "-")) : NaN);
  const toNumber = (text) => {
    const [, digits, suffix] = SUFFIX.exec(text) || [];
    if (!suffix || /e/i.test(digits)) return plain(text);
    const power = suffix === "thousand" ? 3 : POWERS[suffix[0].toLowerCase()];
    return /^.i$/i.test(suffix) ? plain(digits) * 1024 ** (power / 3) : plain(`${digits}e${power}`);
  };
  const brief = (value) => String(value).replace("e+", "e");
  const readNumber = (text, field) => {
    if (text === "") return { wrong: "Enter a number, such as 1024, 0.5, 4k or 70B." };
    const infinite = field.infinite && /^([-−+]?)(?:inf|infinity|∞)$/i.exec(text);
    if (infinite) return { value: /[-−]/.test(infinite[1]) ? -Infinity : Infinity };
    const value = toNumber(text);
    if (Number.isNaN(value)) return { wrong: `“${text.slice(0, 20)}” is not a number. Write it like 1024, 0.5, 4k or 70B.` };
    if (field.min !== null && value < field.min) return { wrong: `Must be at least ${brief(field.min)}.` };
    if (field.max !== null && value > field.max) return { wrong: `Must be at most ${brief(field.max)}.` };
    if (field.kind === "count" && !Number.isInteger(value)) return { wrong: "Must be a whole number." };
    return { value };
  };
  const readList = (text, field) => {
    if (text === "") return field.id === "index" ? { value: [] } : { wrong: "Enter sizes with commas between them, such as 3, 4." };
    const parts = text.replace(/^[([]|,?\s*[)\]]$/g, "").split(/[,×x]/).map((part) => part.trim());
    if (parts.some((part) => /^0\d/.test(part))) return { wrong: "Write 1024 without a comma in it: commas separate sizes." };
    const value = parts.map(toNumber);
    if (value.some((item) => !Number.isInteger(item) || item < 0)) return { wrong: "Write whole numbers that are at least 0, with commas between them, such as 3, 4." };
    if (field.id === "shape" && value.length > 8) return { wrong: "At most 8 dimensions." };
    if (field.id === "shape" && value.some((item) => item < 1)) return { wrong: "Each size must be at least 1." };
    if (field.id === "shape" && FUNCTIONS.product(value) > 1e15) return { wrong: "At most 1e15 elements." };
    return { value };
  };
  const read = (element, field) => {
    if (field.kind === "flag") return { value: element.checked ? 1 : 0 };
    if (data.choices[field.kind]) return { value: data.choices[field.kind][element.value] };
    const text = element.value.trim();
    if (field.kind === "view") return { value: text };
    return field.kind === "text" ? readList(text, field) : readNumber(text, field);
  };
  // Checks a field against the values of other fields.
  const together = (field, values) => {
    const value = values[field.id];
    if (field.divides && values[field.divides] !== undefined && values[field.divides] % value !== 0)
      return `Must divide ${field.divides}, which is ${values[field.divides]}.`;
    if (field.max_of && values[field.max_of] !== undefined && value > values[field.max_of])
      return `Must be at most ${field.max_of}, which is ${values[field.max_of]}.`;
    if (field.of_device && values.device && !values.device.peak[value.name]) return `The ${values.device.name} has no peak for ${value.name}.`;
    if (field.kind === "view" && values.shape) {
      try {
        FUNCTIONS.viewed(values.shape, value);
      } catch (error) {
        return error.message;
      }
    }
    if (field.id === "index" && values.shape && value.length) {
      let shown;
      try {
        shown = FUNCTIONS.viewed(values.shape, values.view).shape;
      } catch {
        return ""; // the field of the view already shows the error
      }
      if (!shown.length) return "The view has no dimensions, so it takes no index.";
      if (value.length !== shown.length) return `Needs ${shown.length} number${shown.length > 1 ? "s" : ""}, one for each dimension.`;
      const at = value.findIndex((item, i) => item >= shown[i]);
      if (at >= 0) return `Dimension ${at} has the size ${shown[at]}, so its index is at most ${shown[at] - 1}.`;
    }
    return "";
  };

  // --- drawing ------------------------------------------------------------------------------------------------------------

  const WIDTH = 480;
  const escaped = (text) => String(text).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
  const rect = (x, y, w, h, style) => `<rect x="${x.toFixed(1)}" y="${y.toFixed(1)}" width="${Math.max(w, 0).toFixed(1)}" height="${h}" class="${style}"/>`;
  const line = (x1, y1, x2, y2, style = "axis") => `<line x1="${x1.toFixed(1)}" y1="${y1.toFixed(1)}" x2="${x2.toFixed(1)}" y2="${y2.toFixed(1)}" class="${style}"/>`;
  const words = (x, y, text, anchor = "start", style = "label") => `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" text-anchor="${anchor}" class="${style}">${escaped(text)}</text>`;
  const curve = (points, style) => `<polyline points="${points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" ")}" class="curve ${style}"/>`;
  const dot = (x, y, style) => `<circle cx="${x.toFixed(1)}" cy="${y.toFixed(1)}" r="5" class="${style}"/>`;
  const logarithmic = (low, high, start, stop) => (v) => start + (Math.log10(v / low) / Math.log10(high / low)) * (stop - start);
  const svg = (height, label, parts) => `<svg class="drawing" role="img" aria-label="${escaped(label)}" viewBox="0 0 ${WIDTH} ${height}">${parts.join("")}</svg>`;
  const powers = (low, high, count) => {
    const from = Math.ceil(Math.log10(low) - 1e-9), to = Math.floor(Math.log10(high) + 1e-9), step = Math.max(1, Math.ceil((to - from) / count));
    return Array.from({ length: Math.floor((to - from) / step) + 1 }, (_, i) => from + i * step);
  };
  const logAxes = (x, y, lows, highs, labels) => {
    const bottom = y(lows[1]), top = y(highs[1]), left = x(lows[0]), right = x(highs[0]), parts = [];
    for (const e of powers(lows[0], highs[0], 6)) parts.push(line(x(10 ** e), top, x(10 ** e), bottom, "grid"), words(x(10 ** e), bottom + 16, `1e${e}`, "middle", "tick"));
    for (const e of powers(lows[1], highs[1], 6)) parts.push(line(left, y(10 ** e), right, y(10 ** e), "grid"), words(left - 6, y(10 ** e) + 4, `1e${e}`, "end", "tick"));
    parts.push(line(left, bottom, right, bottom), line(left, bottom, left, top), words((left + right) / 2, bottom + 34, labels[0], "middle"), words(4, top - 12, labels[1]));
    return parts;
  };
  // A bar of several parts, with a legend below it; `limit` is drawn as a dashed line.
  const stacked = (parts, show, limit) => {
    const shown = parts.filter(([, size]) => size > 0), total = shown.reduce((sum, [, size]) => sum + size, 0);
    const scale = (WIDTH - 40) / Math.max(total, limit ? limit[1] : 0), drawn = [];
    let x = 20;
    shown.forEach(([name, size], i) => {
      const width = Math.max(size * scale - 2, 1);
      drawn.push(rect(x, 28, width, 34, `s${(i % 6) + 1}`));
      if (width > 8 * name.length + 8) drawn.push(words(x + width / 2, 50, name, "middle", "inside"));
      x += size * scale;
    });
    if (limit) {
      const at = 20 + limit[1] * scale;
      drawn.push(line(at, 20, at, 70, "limit"), words(at, 14, limit[0], at > WIDTH / 2 ? "end" : "start"));
    }
    shown.forEach(([name, size], i) => {
      const y = 92 + i * 24;
      drawn.push(rect(20, y - 12, 14, 14, `s${(i % 6) + 1}`), words(42, y, name), words(WIDTH - 20, y, `${show(size)}, ${fixed((size / total) * 100, 1)} %`, "end"));
    });
    const label = shown.map(([name, size]) => `${name} ${show(size)}`).join(", ") + (limit ? `; ${limit[0]}: ${show(limit[1])}` : "");
    return svg(92 + shown.length * 24, label, drawn);
  };
  const storage = (v) => {
    const cells = Math.min(v.elements, 64), side = 34, columns = 13, parts = [], color = new Map();
    const count = FUNCTIONS.product(v.shown);
    // The elements that the view shows, coloured by their index in its first dimension.
    const walk = (d, place, first) => {
      if (place >= cells) return; // strides are never negative
      if (d === v.shown.length) color.set(place, color.get(place) ?? first);
      else for (let i = 0; i < Math.min(v.shown[d], v.strides[d] ? 64 : 1); i += 1) walk(d + 1, place + i * v.strides[d], d ? first : i);
    };
    if (count) walk(0, v.offset, 0);
    for (let i = 0; i < cells; i += 1) {
      const x = 18 + (i % columns) * side, y = 10 + Math.floor(i / columns) * side;
      parts.push(rect(x, y, side - 8, side - 8, color.has(i) ? `s${(color.get(i) % 6) + 1}` : "missing"), words(x + side / 2 - 4, y + side / 2 + 1, i, "middle", color.has(i) ? "inside" : "label"));
      if (i === v.position) parts.push(rect(x - 3, y - 3, side - 2, side - 2, "frame"));
    }
    let y = 28 + Math.ceil(cells / columns) * side;
    // Each dimension's steps through the storage, from the view's first element: dots in the columns and rows of the cells.
    v.shown.forEach((size, d) => {
      parts.push(words(18, y + 5, `dim ${d}: stride ${v.strides[d]}`));
      for (let i = 0; i < Math.min(size, 64); i += 1) {
        const place = v.offset + i * v.strides[d];
        if (count && place < cells) parts.push(dot(18 + (side - 8) / 2 + (place % columns) * side, y + 20 + 14 * Math.floor(place / columns), "s2"));
      }
      y += 30 + 14 * Math.ceil(cells / columns);
    });
    const more = v.elements > cells ? `The first ${cells} of ${fixed(v.elements, 0)} elements of the storage` : "The storage";
    const note = `${more}. Coloured elements belong to the view, with one colour for each index of its first dimension${v.position < cells ? `; element ${v.position} is framed` : ""}. Below: where each dimension steps, starting at the view's first element.`;
    return svg(y, note, parts) + `<p class="hint">${note}</p>`;
  };
  const formats = (v) => {
    const parts = [words(10, 18, `${v.format.name}: 1 sign bit, ${v.format.exponent_bits} of exponent, ${v.format.mantissa_bits} of mantissa`, "start", "heading")];
    const bits = bitsOf(v), width = (WIDTH - 20) / bits.length;
    bits.forEach(([bit, style], i) => {
      parts.push(rect(10 + i * width, 28, width - 1, 26, style));
      if (bits.length <= 32) parts.push(words(10 + (i + 0.5) * width, 46, bit, "middle", "inside"));
    });
    const scale = logarithmic(1e-46, 1e40, 24, WIDTH - 16);
    for (const e of [-40, -20, 0, 20, 40]) parts.push(line(scale(10 ** e), 72, scale(10 ** e), 330, "grid"), words(scale(10 ** e), 346, `1e${e}`, "middle", "tick"));
    Object.values(data.choices.format).filter((f) => f.name !== "float64").forEach((f, row) => {
      const of = computed("number-formats", { ...v, format: f }), y = 92 + row * 48;
      parts.push(words(24, y - 4, f.name), rect(scale(of.smallest), y, scale(of.smallest_normal) - scale(of.smallest), 18, "s2 pale"), rect(scale(of.smallest_normal), y, scale(of.largest) - scale(of.smallest_normal), 18, "s1"));
    });
    const size = Math.abs(v.x), visible = size >= 1e-46 && size <= 1e40;
    if (visible) parts.push(line(scale(size), 66, scale(size), 330, "limit"));
    const note = `Range of the formats on a log scale, pale where numbers are subnormal${visible ? "; dashed: the number" : ""}. float64 reaches further on both sides.`;
    return svg(352, `Bits ${bits.map(([bit]) => bit).join("")}. ${note}`, parts) + `<p class="hint">${note}</p>`;
  };
  // The bits of the rounded number. If it overflows, all bits of the exponent are ones, and in a format without infinity all
  // of the mantissa but the last, which would make it NaN.
  const bitsOf = (v) => {
    const { exponent_bits: e, mantissa_bits: m } = v.format, size = Math.abs(v.rounded);
    let exponent = 0n, mantissa = 0n;
    if (size > v.largest) [exponent, mantissa] = [(1n << BigInt(e)) - 1n, v.format.no_infinity ? (1n << BigInt(m)) - 2n : 0n];
    else if (size >= v.smallest_normal) {
      const power = FUNCTIONS.floor_log2(size);
      exponent = BigInt(power + v.bias);
      mantissa = BigInt((size / 2 ** power - 1) * 2 ** m);
    } else mantissa = BigInt(size / v.smallest);
    const text = (number, length, style) => [...number.toString(2).padStart(length, "0")].map((bit) => [bit, style]);
    return [[v.x < 0 || Object.is(v.x, -0) ? "1" : "0", "s3"], ...text(exponent, e, "s1"), ...text(mantissa, m, "s2")];
  };
  const roofline = (v, lines) => {
    const intensities = lines.map((l) => l.intensity), low = Math.min(0.1, ...intensities) / 1.5, high = Math.max(1e4, ...intensities) * 1.5, floor = 1e11;
    const x = logarithmic(low, high, 56, WIDTH - 16), y = logarithmic(floor, 3e15, 300, 40), parts = logAxes(x, y, [low, floor], [high, 3e15], ["FLOP per byte", "FLOP/s"]);
    const devices = Object.keys(data.choices.device), named = {};
    for (const l of lines) {
      const peak = l.device.peak[l.dtype.name], color = `s${devices.indexOf(l.device.name) + 1}`, dashed = l.dtype.name === "float32" ? " dashed" : "";
      const roof = (i) => y(Math.max(floor, peak * Math.min(1, i / l.ridge))), foot = Math.min(l.ridge, Math.max(low, (floor / peak) * l.ridge));
      parts.push(curve([[x(foot), roof(foot)], [x(l.ridge), roof(l.ridge)], [x(high), roof(high)]], color + dashed));
      if (peak * l.mfu >= floor) parts.push(dot(x(l.intensity), roof(l.intensity), color));
      (named[peak] ??= { at: roof(high), dtype: l.dtype.name, names: [] }).names.push(l.device.name.split(" ")[0]);
    }
    for (const { at, dtype, names } of Object.values(named)) parts.push(words(WIDTH - 18, at - 6, `${names.join(", ")} ${dtype}`, "end", "tick"));
    devices.forEach((name, i) => parts.push(rect(56 + i * 140, 348, 14, 14, `s${i + 1}`), words(76 + i * 140, 360, name.split(" ")[0])));
    const note = "Dots: this product. Solid lines: bfloat16. Dashed lines: float32. H100 and H200 have the same peaks, so their roofs differ only left of the ridge.";
    return svg(368, `Roofline. ${lines.map((l) => `${l.device.name} in ${l.dtype.name}: ${display(l.mfu, "percent")} of the peak`).join("; ")}`, parts) + `<p class="hint">${note}</p>`;
  };
  const budget = (v) => {
    const span = (middle) => [10 ** (Math.floor(Math.log10(middle)) - 1), 10 ** (Math.floor(Math.log10(middle)) + 2)];
    const [nLow, nHigh] = span(v.N), [dLow, dHigh] = span(v.D), x = logarithmic(nLow, nHigh, 56, WIDTH - 16), y = logarithmic(dLow, dHigh, 300, 40);
    const models = Array.from({ length: 121 }, (_, i) => nLow * (nHigh / nLow) ** (i / 120));
    const within = (tokens) => models.filter((n) => tokens(n) >= dLow && tokens(n) <= dHigh).map((n) => [x(n), y(tokens(n))]);
    const parts = logAxes(x, y, [nLow, dLow], [nHigh, dHigh], ["parameters, N", "tokens, D"]);
    parts.push(curve(within((n) => v.budget / (6 * n)), "s1"), curve(within((n) => v.ratio * n), "s3 dashed"), dot(x(v.N), y(v.D), "s2"));
    const note = `Solid: all N and D that use up the budget, 6ND = C. Dashed: ${v.ratio} tokens per parameter. The dot is on both lines.`;
    return svg(340, note, parts) + `<p class="hint">${note}</p>`;
  };
  const gigabytes = (v) => scaled(v, DECIMAL_UNITS, 1) || `${fixed(v, 0)} B`;
  const DRAWN = {
    tensor: storage,
    "number-formats": formats,
    matmul: roofline,
    "compute-budget": budget,
    "model-size": (v) => stacked([["Embedding", v.embedding], ["Attention", v.attention], ["Feed-forward", v.ffn], ["LM head", v.lm_head]], (size) => (size >= 1e9 ? `${fixed(size / 1e9, 2)} billion` : `${fixed(size / 1e6, 2)} million`)),
    "training-memory": (v) => stacked([["Weights", v.weights], ["Gradients", v.gradients], ["Optimizer states", v.states], ["Master copy", v.master], ["Autocast's copies", v.copies], ["Activations", v.activations + v.head], ["Logits", v.logits]], gigabytes, ["memory of the devices", v.memory]),
  };

  // --- one calculator -----------------------------------------------------------------------------------------------------

  const computed = (id, values) => {
    const form = data.calculators.find((c) => c.id === id), all = { ...values };
    for (const result of form.result) all[result.id] = FORMULAS[`${id}.${result.id}`](all);
    return all;
  };
  const tableOf = (form, values) => {
    const names = (kind) => (kind === "dtype" ? data.dtypes[form.id] : Object.keys(data.choices[kind]));
    let lines = [{}];
    for (const kind of form.lines) lines = lines.flatMap((one) => names(kind).map((name) => ({ ...one, [kind]: data.choices[kind][name] })));
    return lines.map((chosen) => {
      const all = { ...values, ...chosen };
      for (const column of form.column) all[column.id] = FORMULAS[`${form.id}.${column.id}`](all);
      return all;
    });
  };

  const start = (section) => {
    const id = section.dataset.calculator, form = data.calculators.find((c) => c.id === id);
    let waiting;
    const element = (field) => section.querySelector(`[name="${field.id}"]`);
    const units = section.querySelector('[name="units"]'); // not all calculators have bytes
    const shown = (value, show) => display(value, show, units ? units.value : "GB");

    const valuesOrNull = () => {
      const values = {}, wrong = {};
      for (const field of form.input) {
        const got = read(element(field), field);
        if (got.wrong) wrong[field.id] = got.wrong;
        else values[field.id] = got.value;
      }
      for (const field of form.input) if (!wrong[field.id]) wrong[field.id] = together(field, values);
      for (const field of form.input) {
        const at = element(field), message = section.querySelector(`#${CSS.escape(`${id}-${field.id}-error`)}`);
        if (message.textContent !== wrong[field.id]) message.textContent = wrong[field.id];
        at.setAttribute("aria-invalid", wrong[field.id] ? "true" : "false");
      }
      return Object.values(wrong).some(Boolean) ? null : values;
    };
    const write = (at, text) => { if (at.textContent !== text) at.textContent = text; };

    const update = () => {
      const values = valuesOrNull(), results = values && computed(id, values), lines = values && form.column.length ? tableOf(form, results) : [];
      for (const result of form.result) write(section.querySelector(`[data-result="${result.id}"]`), results ? shown(results[result.id], result.show) : "–");
      section.querySelectorAll(".lines tbody tr").forEach((row, i) => {
        for (const column of form.column) write(row.querySelector(`[data-column="${column.id}"]`), results ? shown(lines[i][column.id], column.show) : "–");
      });
      section.querySelector(".plot").innerHTML = !results ? '<p class="hint">Correct the marked fields to see results.</p>' : DRAWN[id] ? DRAWN[id](results, lines) : "";
      section.querySelector(".link").setAttribute("href", address());
      return results;
    };
    // After a change by the user, update the address; after a pause, announce the results to screen readers.
    const changed = () => {
      const results = update();
      history.replaceState(null, "", address());
      clearTimeout(waiting);
      waiting = setTimeout(() => write(section.querySelector(".status"), summary(results)), 800);
    };
    const summary = (results) => {
      if (results) return form.result.filter((r) => r.lead).map((r) => `${r.label}: ${shown(results[r.id], r.show)}`).join("; ");
      const wrong = form.input.find((field) => element(field).getAttribute("aria-invalid") === "true");
      return `${wrong.label}: ${section.querySelector(`#${CSS.escape(`${id}-${wrong.id}-error`)}`).textContent}`;
    };
    // The fields that differ from the defaults, in the address's fragment, which the browser never sends.
    const address = () => {
      const differing = new URLSearchParams();
      for (const field of form.input) {
        const at = element(field), first = field.kind === "flag" ? at.defaultChecked : at.options ? [...at.options].find((o) => o.defaultSelected).text : at.defaultValue;
        const now = field.kind === "flag" ? at.checked : at.value;
        if (now !== first) differing.set(field.id, field.kind === "flag" ? String(Number(now)) : now);
      }
      if (units && units.selectedIndex) differing.set("units", units.value);
      return `#${section.id}${differing.size ? `?${differing}` : ""}`;
    };
    const fill = (given) => {
      if (units && [...units.options].some((option) => option.text === given.get("units"))) units.value = given.get("units");
      for (const field of form.input) {
        const at = element(field), value = given.get(field.id);
        if (value === null) continue;
        if (field.kind === "flag") at.checked = value === "1";
        else if (!at.options) at.value = value;
        else if ([...at.options].some((option) => option.text === value)) at.value = value;
      }
    };
    const reset = () => {
      section.querySelector("form").reset();
      if (units) units.selectedIndex = 0;
    };
    const fromAddress = () => {
      const [target, query] = location.hash.slice(1).split(/\?(.*)/s);
      if (target !== section.id && target) return; // an address without a calculator resets every calculator
      reset();
      if (query) fill(new URLSearchParams(query));
      update();
      if (query) section.scrollIntoView();
    };

    section.querySelector("form").addEventListener("submit", (event) => event.preventDefault());
    section.addEventListener("input", changed);
    section.querySelector(".reset").addEventListener("click", () => {
      reset();
      changed();
    });
    window.addEventListener("hashchange", fromAddress);
    reset(); // some browsers keep typed text across a reload
    update();
    if (location.hash.startsWith(`#${section.id}?`)) fromAddress();
  };

  window.HANDOUT = { FUNCTIONS, FORMULAS, display, computed, tableOf };
  document.addEventListener("DOMContentLoaded", () => document.querySelectorAll("[data-calculator]").forEach(start));
})();
