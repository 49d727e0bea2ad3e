// Puts the page together: data, sections, the map with its tools, and what follows a choice.

function detailsOf(memory, k, choose) {
  if (k < 0) return [element("p", { class: "note", text: "Click a rectangle to pin it here. Drag to zoom in, double-click for all, Shift and drag to move." })];
  const row = (name, value) => value === "" || value === null ? [] : [element("dt", { text: name }), element("dd", {}, value)];
  const tensors = memory.tensorsOf[k].map((t) => memory.tensors[t]);
  const made = [...new Set(memory.tensorsOf[k].map((t) => memory.producer[t]).filter((op) => op >= 0))];
  const read = [...new Set(memory.tensorsOf[k].flatMap((t) => memory.readers[t]))].sort((a, b) => a - b);
  const labels = (ops) => ops.slice(0, 6).map((op) => memory.label(op)).join(", ") + (ops.length > 6 ? ` and ${ops.length - 6} more` : "");
  const forms = tensors.filter((t) => t.dtype).slice(0, 4).map((t) => `${t.dtype} ${t.shape || "scalar"}`);
  const place = memory.offset[k] >= 0 ? `${countText(memory.offset[k])} – ${countText(memory.offset[k] + memory.size[k])}` : "";
  const shared = sharing(memory, k).map((other) => element("button", { type: "button", class: "link", text: breakable(memory.names[other]), onclick: () => choose(other) }));
  return [element("h3", { text: breakable(memory.names[k]) }),
    element("dl", {},
      row("Size", `${sizeText(memory.size[k], memory.unit)} (${countText(memory.size[k])})`),
      row("Form", [...new Set(forms)].join("; ")),
      row("Kind", memory.kinds[memory.kind[k]] + (memory.layer[k] && memory.layer[k] !== "record" ? `, ${memory.layer[k]}` : "")),
      row("Bytes", place),
      row("Object", memory.objects.length && memory.object[k] >= 0 ? `number ${memory.object[k]}` : ""),
      row("In use", breakable(`${memory.label(memory.first[k])} to ${memory.label(memory.last[k])} (${countText(memory.last[k] - memory.first[k] + 1)} operators)`)),
      row("Made by", breakable(labels(made))),
      row("Read by", breakable(labels(read))),
      row("Holds", tensors.length > 1 ? tensors.slice(0, 6).map((t) => t.name).join(", ") : ""),
      row("Same bytes", shared.length ? shared : ""))];
}

// Records that use some of the same bytes at other times: the next ones before and after it.
function sharing(memory, k) {
  const inside = (other) => memory.offset[k] >= 0 && other !== k && memory.size[other] && memory.region[other] === memory.region[k]
    && memory.offset[other] < memory.offset[k] + memory.size[k] && memory.offset[k] < memory.offset[other] + memory.size[other];
  const before = [], after = [];
  for (let other = 0; other < memory.count; other++) {
    if (!inside(other)) continue;
    if (memory.last[other] < memory.first[k]) before.push(other);
    else if (memory.first[other] > memory.last[k]) after.push(other);
  }
  before.sort((a, b) => memory.last[b] - memory.last[a]);
  after.sort((a, b) => memory.first[a] - memory.first[b]);
  return [...before.slice(0, 3), ...after.slice(0, 3)];
}

function mapSection(memories, labels) {
  let memory = memories[0], view = memory.hasOffsets ? "arena" : "objects";
  const details = element("aside", { class: "details", "aria-label": "Pinned record" });
  const said = element("p", { class: "offscreen", role: "status" });
  const map = new MemoryMap(memory, (k) => {
    details.replaceChildren(...detailsOf(memory, k, (other) => map.pin(other, { centre: true })));
    said.textContent = k < 0 ? "" : `${memory.names[k]}, ${sizeText(memory.size[k], memory.unit)}, operators ${memory.first[k]} to ${memory.last[k]}`;
  });
  map.pin(-1);
  const hits = element("span", { class: "note", role: "status" });
  let place = -1;
  const search = element("input", { type: "search", id: "search", placeholder: "Search by name  ( / )", "aria-label": "Search records by name",
    oninput: () => seek(),
    onkeydown: (event) => {
      if (event.key !== "Enter" || !map.found?.length) return;
      place = (place + (event.shiftKey ? -1 : 1) + map.found.length) % map.found.length;
      map.pin(map.found[place], { centre: true });
    } });
  const seek = () => {
    const found = map.find(search.value);
    place = -1;
    hits.textContent = found ? `${countText(found.length)} found` : "";
  };
  const show = (shown) => {
    map.show(memory, shown);
    map.pin(-1);
    seek();
  };
  const chooser = element("select", { "aria-label": "Colour by", onchange: (event) => map.colour(event.target.value) },
    [["layer", "Layer type"], ["kind", "Kind"], ["lifetime", "Lifetime"], ["peak", "Alive at the peak"]].map(([value, text]) =>
      element("option", { value, text, selected: value === map.by })));
  const views = memory.hasOffsets && memory.objects.length
    ? choice("View", [["arena", "Arena"], ["objects", "Shared objects"]], view, (key) => show((view = key))) : null;
  const versions = memories.length > 1
    ? choice("Plan", labels.map((label, k) => [k, visible(label)]), 0, (key) => {
      memory = memories[key];
      const both = memory.hasOffsets && memory.objects.length > 0;
      if (views) views.hidden = !both;
      show(both ? view : memory.hasOffsets ? "arena" : "objects");
    }) : null;
  const zoom = element("div", { class: "choice", role: "group", "aria-label": "Zoom" },
    [["−", "Zoom out", () => map.scale(1 / 0.6)], ["+", "Zoom in", () => map.scale(0.6)], ["All", "Show all", () => map.zoom(0, memory.steps, 0, map.top)]]
      .map(([text, label, onclick]) => element("button", { type: "button", text, "aria-label": label, onclick })));
  const made = section("map", "Memory map", "Each rectangle is a piece of memory: how long it is in use, and which bytes it takes. The shaded column is the peak.",
    element("div", { class: "tools" }, search, hits, element("label", { class: "inline" }, "Colour ", chooser), views, versions, zoom),
    element("div", { class: "mapgrid" }, map.root, details), said);
  const go = (k) => {
    if (memory !== memories[0]) versions.querySelector("button").click();
    map.pin(k, { centre: true });
    made.scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
  };
  return { made, map, search, go };
}

function theme(map) {
  const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
  const button = element("button", { type: "button", class: "small", onclick: () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    say();
  } });
  const say = () => {
    colours.clear();
    button.textContent = isDark() ? "Light" : "Dark";
    map.draw();
  };
  dark.addEventListener("change", say);
  let kept;
  addEventListener("beforeprint", () => { kept = root.dataset.theme; root.dataset.theme = "light"; colours.clear(); map.drawNow(); });
  addEventListener("afterprint", () => { if (kept) root.dataset.theme = kept; else delete root.dataset.theme; colours.clear(); map.drawNow(); });
  say();
  return button;
}

function start() {
  const data = JSON.parse(document.getElementById("edgemem-data").textContent), { report } = data;
  const memories = [data, ...report.others.map((other) => other.data)].map((d) => new Memory(d)), memory = memories[0];
  const { made, map, search, go } = mapSection(memories, [report.label, ...report.others.map((other) => other.label)]);
  const recordOf = (op) => {
    const tensor = [...(memory.ops[op]?.writes ?? []), ...(memory.ops[op]?.reads ?? [])].find((t) => memory.tensors[t].record >= 0);
    return tensor === undefined ? -1 : memory.tensors[tensor].record;
  };
  const sections = [answerSection(memory, report), differenceSection(report.difference), made, peakSection(memory, report, go),
    frontSection(report.front), layerSection(memory, report.times, (op) => go(recordOf(op))), tensorSection(memory, go), planSection(memory),
    proofSection(memory, report.proof)].filter(Boolean);
  const links = sections.filter((s) => s.id !== "answer").map((s) => element("a", { href: `#${s.id}`, text: s.querySelector("h2").textContent }));
  const subject = [memory.subject, memory.kernels ? `kernels of ${memory.kernels}` : ""].filter(Boolean).join(" · ");
  document.getElementById("page").replaceChildren(
    element("header", {}, element("div", {}, element("p", { class: "brand", text: "edgemem report" }), element("h1", { text: breakable(memory.name) }), element("p", { class: "note", text: subject })),
      element("div", { class: "tools" }, theme(map), element("button", { type: "button", class: "small", text: "Print", onclick: () => print() }))),
    element("nav", { "aria-label": "Sections" }, links), ...sections);
  addEventListener("keydown", (event) => {
    if (event.key === "/" && !/INPUT|SELECT|TEXTAREA/.test(event.target.tagName)) {
      event.preventDefault();
      search.focus();
    }
  });
  document.documentElement.dataset.ready = "true";
}

start();
