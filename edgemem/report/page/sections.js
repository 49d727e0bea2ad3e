// The sections of the page, each made of the data it shows.

function answerSection(memory, report) {
  const { unit } = memory, size = (n) => sizeText(n, unit);
  const { recorded } = memory, { arena, bound } = recorded ?? memory, optimal = arena === bound;
  const ofGraph = !recorded && ["generic", "onnxruntime"].includes(memory.target) ? "Of the graph's plan: what an ONNX Runtime session takes is not known" : "";
  const badges = [
    optimal ? ["optimal", "good", "Equal to the lower bound: no plan is smaller"] : [`${(arena / Math.max(bound, 1)).toFixed(3)}× of the lower bound`, "plain", ""],
    report.proof.right ? ["proved", "good", "Checked by arguments that share no code with the planner"] : null,
    report.budget !== null ? (memory.memory <= report.budget ? ["fits the budget", "good", ofGraph] : ["over the budget", "bad", ""]) : null,
  ].filter(Boolean);
  const facts = [
    recorded ? ["Graph's plan", size(memory.arena), `lower bound ${size(memory.bound)}`]
      : ["Lower bound", size(memory.bound), optimal ? "reached" : `${size(memory.arena - memory.bound)} below the arena`],
    ["Without sharing", size(memory.naive), memory.arena ? `${(memory.naive / memory.arena).toFixed(1)}× the arena` : ""],
    ["Peak", size(memory.peak), `at ${memory.label(memory.peakOp)}`],
    memory.ops.length ? ["Operators", countText(memory.ops.length), `${countText(memory.count)} records`]
      : ["Records", countText(memory.count), ""],
  ];
  if (recorded) {
    facts.unshift(["Recorded arena", size(arena), `lower bound ${size(bound)}`],
      ["Results", recorded.results === null ? "not counted" : size(recorded.results), recorded.results === null ? "their sizes are not known" : recorded.results ? "beside the arena" : "in the arena"]);
  }
  if (memory.tail) facts.splice(2, 0, ["Tail", size(memory.tail), "of TensorFlow Lite Micro, predicted"]);
  return element("section", { id: "answer", "aria-label": "The answer" },
    element("div", { class: "answer" },
      element("div", { class: "big" },
        element("p", { class: "note", text: recorded ? "Recorded arena and results of a session" : memory.tail ? "Arena with tail" : unit === "texels" ? "Shared objects" : "Arena" }),
        element("p", { class: "figure", text: size(memory.memory) }),
        element("p", { class: "badges" }, badges.map(([text, kind, title]) => element("span", { class: `badge ${kind}`, text, title: title || null }))),
        element("p", { class: "note exact", text: `${countText(memory.memory)} ${unit}${recorded ? "" : ` · ${memory.strategy}`}` })),
      element("dl", { class: "facts" }, facts.map(([name, value, note]) =>
        element("div", {}, element("dt", { text: name }), element("dd", { text: value }), element("dd", { class: "note", text: breakable(note) }))))),
    budgetBar(memory, report.budget));
}

// One bar for arena and tail, or for the recorded arena and results, with marks for the bound and the budget; its length is the largest of all.
function budgetBar(memory, budget) {
  const whole = Math.max(memory.memory, budget ?? 0, budget === null ? memory.naive : 0, 1) * 1.02;
  const part = (from, to, kind, text) => {
    const made = element("i", { class: `part ${kind}`, title: text });
    made.style.left = `${(from / whole) * 100}%`;
    made.style.width = `${((to - from) / whole) * 100}%`;
    return made;
  };
  const mark = (at, kind, text) => {
    const share = at / whole, made = element("span", { class: `mark ${kind}${share > 0.7 ? " left" : ""}` }, element("b", { text }));
    made.style.left = `${share * 100}%`;
    return made;
  };
  const { unit } = memory, marks = [], arena = (memory.recorded ?? memory).arena;
  if (budget !== null) marks.push(mark(budget, "budget", `budget ${sizeText(budget, unit)}`));
  else marks.push(mark(memory.naive, "plain", `without sharing ${sizeText(memory.naive, unit)}`));
  const text = `${sizeText(memory.memory, unit)} of ${budget !== null ? `a budget of ${sizeText(budget)}` : `${sizeText(memory.naive, unit)} without sharing`}`;
  return element("div", { class: "budget", role: "img", "aria-label": text },
    element("div", { class: "track" }, part(0, arena, "arena", `arena ${sizeText(arena, unit)}`),
      memory.recorded?.results ? part(arena, memory.memory, "tail", `results ${sizeText(memory.recorded.results, unit)}`) : null,
      memory.tail ? part(memory.arena, memory.arena + memory.tail, "tail", `tail ${sizeText(memory.tail, unit)}`) : null, marks));
}

// What is alive at the peak and what holds it; where ways to need less were looked for, what each of them removes.
function peakSection(memory, report, choose) {
  const { front } = report;
  const total = memory.peak || 1, shown = memory.atPeak.slice(0, 12);
  const rows = shown.map((k) => {
    const bar = element("i", { class: "bar", "aria-hidden": "true" });
    bar.style.setProperty("--share", memory.size[k] / total);
    return element("li", {}, element("button", { type: "button", class: "row", onclick: () => choose(k) },
      element("span", { class: "name", text: memory.names[k] }),
      element("span", { class: "value", text: `${sizeText(memory.size[k], memory.unit)} · ${((memory.size[k] / total) * 100).toFixed(0)} %` }), bar,
      element("span", { class: "note", text: breakable(holding(memory, k)) })));
  });
  const left = memory.atPeak.length - shown.length;
  const overlap = memory.arena < memory.peak ? " They overlap in the plan, which takes less." : "";
  const ways = front ? commandList(front, report.budget !== null) : [];
  return section("peak", "The peak",
    `${sizeText(memory.peak, memory.unit)} in ${countText(memory.atPeak.length)} records are alive at ${memory.label(memory.peakOp)}. To need less, one of them has to be smaller, or to live elsewhere in time.${overlap}`,
    element("ol", { class: "list" }, rows), left > 0 ? element("p", { class: "note", text: `and ${countText(left)} more` }) : null, ways);
}

// Why a record is there: what made it, and what reads it last.
function holding(memory, k) {
  const tensors = memory.tensorsOf[k], made = tensors.map((t) => memory.producer[t]).filter((op) => op >= 0);
  const read = tensors.flatMap((t) => memory.readers[t]), last = memory.last[k], kind = memory.kinds[memory.kind[k]];
  if (!made.length && !read.length) return `${kind}, from ${memory.label(memory.first[k])} to ${memory.label(last)}`;
  const until = Math.max(...read, -1);
  return [kind, made.length ? `made by ${memory.label(Math.min(...made))}` : null, until >= 0 ? `read last by ${memory.label(until)}` : "read by none",
    until < last ? `in use to ${memory.label(last)}` : null].filter(Boolean).join(", ");
}

// The ways to need less, the one that removes most first, each with its command.
function commandList({ rows, whole }, hasBudget) {
  const items = rows.filter((row) => row.steps).sort((a, b) => a.memory - b.memory).map((row) => {
    const less = whole - row.memory;  // `whole` is null where no plan says what the model takes as it is
    const text = whole === null ? `${row.planned ? "" : "≥ "}${sizeText(row.memory)}` : `${row.planned ? "" : "at most "}−${sizeText(less)} · ${((less / whole) * 100).toFixed(0)} %`;
    return element("li", { "data-steps": row.steps },
      element("span", { class: "value", text: whole === null || less > 0 ? text : "no less" }), element("code", { text: row.command }), copyButton(row.command));
  });
  return [element("h3", { text: "What would remove it" }), items.length ? element("ul", { class: "commands" }, items)
    : element("p", { class: "note", text: hasBudget && rows.some((row) => row.chosen)
      ? "The model is within the budget as it is; the search looked no further." : "No change was found that takes less." })];
}

function layerSection(memory, times, choose) {
  if (!memory.ops.some((op) => op.type)) return null;
  const sizeOf = (tensors) => [...new Set(tensors.map((t) => memory.tensors[t].record).filter((r) => r >= 0))]
    .reduce((sum, r) => sum + memory.size[r], 0);
  const scratch = new Map();
  for (let k = 0; k < memory.count; k++) {
    if (memory.kinds[memory.kind[k]] === "scratch") scratch.set(memory.first[k], (scratch.get(memory.first[k]) ?? 0) + memory.size[k]);
  }
  const rows = memory.ops.map((op, k) => ({ op: k, label: op.label, type: op.type, input: sizeOf(op.reads), output: sizeOf(op.writes),
    workspace: scratch.get(k) ?? 0, alive: memory.aliveAt(k), weights: op.weights, macs: op.macs, time: (times?.ns[k] ?? 0) / 1000 }));
  const slowest = Math.max(...rows.map((row) => row.time)), bytes = (key) => ({ number: true, text: (row) => (row[key] ? countText(row[key]) : "–") });
  const columns = [
    { key: "op", title: "#", number: true },
    { key: "label", title: "Operator" },
    { key: "type", title: "Type" },
    { key: "input", title: "In", ...bytes("input") },
    { key: "output", title: "Out", ...bytes("output") },
    ...(scratch.size ? [{ key: "workspace", title: "Workspace", ...bytes("workspace") }] : []),
    { key: "alive", title: "Alive", ...bytes("alive"), bar: (row) => row.alive / (memory.peak || 1) },
    { key: "weights", title: "Weights", ...bytes("weights") },
    { key: "macs", title: "MACs", ...bytes("macs") },
    ...(times ? [{ key: "time", title: "Time, µs", number: true, text: (row) => (row.time ? countText(row.time) : "–"), bar: (row) => row.time / (slowest || 1) }] : []),
  ];
  return section("layers", "Layers", `${memory.unit === "texels" ? "Texels" : "Bytes"} that each operator reads, writes and finds alive; inputs and outputs outside of the plan count as 0.${times ? ` ${times.about}` : ""}`,
    sortableTable("layers", columns, rows, { file: "layers.csv", choose: (row) => choose(row.op) }));
}

function tensorSection(memory, choose) {
  const rows = Array.from({ length: memory.count }, (_, k) => {
    const tensor = memory.tensors[memory.tensorsOf[k][0]];
    return { k, name: memory.names[k], form: tensor?.dtype ? `${tensor.dtype} ${tensor.shape || "scalar"}` : "", kind: memory.kinds[memory.kind[k]],
      size: memory.size[k], offset: memory.offset[k], first: memory.first[k], last: memory.last[k] };
  });
  const columns = [
    { key: "name", title: "Name" },
    { key: "form", title: "Form" },
    { key: "kind", title: "Kind" },
    { key: "size", title: "Size", number: true, text: (row) => countText(row.size), bar: (row) => row.size / (memory.peak || 1) },
    ...(memory.hasOffsets ? [{ key: "offset", title: "Offset", number: true, text: (row) => countText(row.offset) }] : []),
    { key: "first", title: "From", number: true },
    { key: "last", title: "To", number: true },
  ];
  return section("tensors", "Records", "Every piece of memory in the plan, with the operators during which it is in use.",
    sortableTable("records", columns, rows, { file: "records.csv", choose: (row) => choose(row.k), sort: { key: "size", down: true } }));
}

function planSection(memory) {
  if (memory.plans.length < 2) return null;
  const words = { bound: "met the bound", proof: "proved optimal", work: "ended by its work", time: "ended by the time limit" };
  const families = [["offsets", "One arena"], ["shared_objects", "Shared objects"]].map(([family, title]) => {
    const rows = memory.plans.filter((plan) => plan.family === family).map((plan) => ({ strategy: plan.strategy, size: plan.size,
      result: plan.optimal ? "optimal" : words[plan.stopped] ?? "" }));
    if (!rows.length) return null;
    const least = Math.min(...rows.map((row) => row.size)) || 1, most = Math.max(...rows.map((row) => row.size));
    return element("div", {}, element("h3", { text: title }), sortableTable(`strategies, ${title.toLowerCase()}`, [
      { key: "strategy", title: "Strategy" },
      { key: "size", title: "Size", number: true, text: (row) => countText(row.size), bar: (row) => row.size / most },
      { key: "ratio", title: "Of the best", number: true, text: (row) => `${(row.size / least).toFixed(3)}×` },
      { key: "result", title: "Result" },
    ], rows.map((row) => ({ ...row, ratio: row.size / least })), { sort: { key: "size", down: false } }));
  });
  return section("plans", "Strategies", "All plans that were made for these records; the smallest is the one in the map.", element("div", { class: "columns" }, families));
}

// The ways to need less that `edgemem shrink` found: memory against arithmetic, and a command for each.
function frontSection(front) {
  if (!front) return null;
  const rows = front.rows;
  const table = sortableTable("ways to need less", [
    { key: "memory", title: "Memory", number: true, text: (row) => `${row.planned ? "" : "≥ "}${countText(row.memory)}`, bar: (row) => row.memory / Math.max(...rows.map((r) => r.memory)) },
    { key: "macs", title: "Arithmetic", number: true, text: (row) => `${row.macs.toFixed(3)}×` },
    { key: "operators", title: "Operators", number: true, text: (row) => countText(row.operators) },
    { key: "steps", title: "Changes", text: (row) => (row.chosen ? `★ ${row.steps || "none"}` : row.steps || "none") },
  ], rows, { file: "front.csv" });
  const pick = (row) => {
    for (const line of document.querySelectorAll(".commands li")) {
      const picked = line.dataset.steps === row.steps;
      line.classList.toggle("picked", picked);
      if (picked) line.querySelector("button").focus();
    }
  };
  return section("front", "Less memory", front.explanation || "What a changed model with the same outputs takes, the cheapest first. ★ is what edgemem shrink would choose. Click a dot for its command.",
    element("div", { class: "columns wide" }, frontChart(rows, pick), table));
}

function frontChart(rows, pick) {
  const [w, h, left, bottom] = [420, 240, 64, 34], make = (tag, attributes, text) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (text) made.textContent = text;
    return made;
  };
  const svg = make("svg", { viewBox: `0 0 ${w} ${h}`, class: "chart", role: "group", "aria-label": "Memory against its price" });
  // Where no change costs arithmetic, the price is in operators.
  const by = new Set(rows.map((r) => r.macs.toFixed(3))).size > 1 ? "macs" : "operators";
  const most = Math.max(...rows.map((r) => r.memory)) * 1.08, prices = rows.map((r) => r[by]);
  const low = Math.min(...prices), high = Math.max(...prices, low + 0.01), pad = (high - low) * 0.08;
  const x = (v) => left + ((v - low + pad) / (high - low + 2 * pad)) * (w - left - 12), y = (v) => 10 + (1 - v / most) * (h - bottom - 10);
  for (const value of ticks(0, most, 4, true)) {
    svg.append(make("line", { x1: left, x2: w - 12, y1: y(value), y2: y(value), class: "grid" }),
      make("text", { x: left - 8, y: y(value) + 4, "text-anchor": "end" }, axisText(value, most)));
  }
  for (const value of [low, high]) svg.append(make("text", { x: x(value), y: h - 16, "text-anchor": "middle" }, by === "macs" ? `${value.toFixed(2)}×` : countText(Math.round(value))));
  svg.append(make("text", { x: (left + w) / 2, y: h - 2, "text-anchor": "middle" }, by === "macs" ? "arithmetic" : "operators"));
  const ordered = [...rows].sort((a, b) => a[by] - b[by] || b.memory - a.memory);
  svg.append(make("polyline", { points: ordered.map((r) => `${x(r[by])},${y(r.memory)}`).join(" "), class: "curve" }));
  for (const row of ordered) {
    const text = `${sizeText(row.memory)}, ${row.macs.toFixed(3)}× arithmetic, ${countText(row.operators)} operators: ${row.steps || "as it is"}`;
    const dot = make("circle", { cx: x(row[by]), cy: y(row.memory), r: row.chosen ? 7 : 5, class: row.chosen ? "dot chosen" : "dot",
      tabindex: 0, role: "button", "aria-label": text });
    dot.addEventListener("click", () => pick(row));
    dot.addEventListener("keydown", (event) => event.key === "Enter" && pick(row));
    dot.append(make("title", {}, text));
    svg.append(dot);
  }
  return svg;
}

function differenceSection(difference) {
  if (!difference) return null;
  const rows = Object.entries(difference.figures).map(([name, [before, after]]) => ({ name: name.replaceAll("_", " "), before, after,
    change: after - before, text: before === after ? "same" : `${after > before ? "+" : "−"}${countText(Math.abs(after - before))}${before ? `, ${percentText(after / before - 1)}` : ""}` }));
  const list = (title, texts) => texts.length ? [element("h3", { text: title }), element("ul", { class: "plainlist" },
    texts.slice(0, 8).map((text) => element("li", { text: visible(text) })), texts.length > 8 ? element("li", { class: "note", text: `and ${countText(texts.length - 8)} more` }) : null)] : [];
  const edits = [list("Changed in the model", difference.edits.map((edit) => edit.text)),
    list("Tensors", difference.tensors.map((t) => `${t.name} ${t.kind} (${countText(t.before)} → ${countText(t.after)}): ${t.reason}`))];
  return section("difference", "Difference", `${visible(difference.before)} → ${visible(difference.after)}`,
    element("div", { class: "columns" },
      sortableTable("figures", [{ key: "name", title: "Figure" }, { key: "before", title: "Before", number: true, text: (r) => countText(r.before) },
        { key: "after", title: "After", number: true, text: (r) => countText(r.after) }, { key: "change", title: "Change", number: true, text: (r) => r.text }], rows),
      element("div", {}, edits.flat().length ? edits : element("p", { class: "note", text: "Nothing was changed." }))));
}

function proofSection(memory, proof) {
  const reasons = new Map();
  for (const [, reason] of memory.unplanned) reasons.set(reason, (reasons.get(reason) ?? 0) + 1);
  const outside = [...reasons].map(([reason, n]) => `${countText(n)} tensor${n > 1 ? "s" : ""} without a place: ${visible(reason)}`);
  const list = (title, kind, texts) => texts.length ? element("div", {}, element("h3", { text: title }),
    element("ul", { class: `proof ${kind}` }, texts.map((text) => element("li", { text: visible(text) })))) : null;
  return section("proof", "Proof", "What was checked before this page was written, by code that shares nothing with the planner, and what was not.",
    element("div", { class: "columns" },
      list("Checked", "yes", proof.checked), list("Not checked", "no", [...new Set([...proof.not_checked, ...outside])]),
      list("Made with", "with", [...Object.entries(memory.versions).map(([name, version]) => `${name} ${version}`), ...(memory.kernels ? [`kernels of ${memory.kernels}`] : []), ...proof.runtimes.map((name) => `runs in ${name}`)])));
}
