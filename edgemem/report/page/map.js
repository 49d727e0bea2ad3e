// The memory map: operators to the right, bytes upwards, a rectangle a record; below it the bytes alive.

const MARGIN = { left: 76, right: 12, top: 10, bottom: 24 };
const SHADES = [1, 0.84, 0.12];  // of every first and second record, and of those that a search has not found

class MemoryMap {
  constructor(memory, choose) {
    this.choose = choose;
    this.by = memory.ops.some((op) => op.type) ? "layer" : "lifetime";
    this.map = new Plot(380, MARGIN);
    this.raster = new Raster();
    this.envelope = new Raster();
    this.over = new Plot(380, MARGIN);
    this.curve = new Plot(130, { ...MARGIN, top: 8 });
    this.map.canvas.setAttribute("aria-hidden", "true");
    this.curve.canvas.setAttribute("aria-label", "Bytes alive at each operator");
    this.curve.canvas.setAttribute("role", "img");
    Object.assign(this.over.canvas, { className: "over", tabIndex: 0 });
    this.over.canvas.setAttribute("role", "application");
    this.tip = element("div", { class: "tip", role: "presentation", hidden: true });
    this.legend = element("ul", { class: "legend", "aria-label": "Colours" });
    this.stage = element("div", { class: "stage" }, this.map.canvas, this.over.canvas, this.tip);
    this.caption = element("p", { class: "axis" });
    this.root = element("div", { class: "plots" }, this.legend, this.stage, this.caption, this.curve.canvas);
    this.hover = this.pinned = -1;
    this.found = null;
    this.#listen();
    this.show(memory, memory.hasOffsets ? "arena" : "objects");
    new ResizeObserver(() => this.#resize()).observe(this.stage);
  }

  show(memory, view) {
    this.memory = memory;
    this.view = view;
    this.order = null;
    Object.assign(this, memory.bases(view));
    this.height = this.height || 1;
    this.top = this.height * 1.04;
    this.hover = this.pinned = -1;
    this.found = null;
    this.over.canvas.setAttribute("aria-label",
      `Memory map of ${countText(memory.count)} records. Arrow keys go from record to record, plus and minus zoom, 0 shows all.`);
    this.colour(this.by);
    this.zoom(0, memory.steps, 0, this.top);
  }

  colour(by) {
    this.by = by;
    const classes = (this.classes = colouring(this.memory, by));
    this.#tone();
    this.legend.replaceChildren(...classes.classes.map(([name, style]) => {
      const swatch = element("i", { "aria-hidden": "true" });
      swatch.style.background = `var(${style})`;
      return element("li", {}, swatch, name);
    }));
    this.draw();
  }

  find(text) {
    const wanted = text.trim().toLowerCase(), { memory } = this;
    this.found = wanted ? [] : null;
    for (let k = 0; wanted && k < memory.count; k++) {
      const names = [memory.names[k], ...memory.tensorsOf[k].map((t) => memory.tensors[t].name)];
      if (names.some((name) => name.toLowerCase().includes(wanted))) this.found.push(k);
    }
    this.#tone();
    this.draw();
    return this.found;
  }

  // Of each record, the number of its colour and shade; 0 for nothing to draw.
  #tone() {
    const { memory, classes } = this, found = this.found && new Set(this.found);
    this.tones = Uint8Array.from(memory.size, (size, k) => size && 1 + classes.of[k] * SHADES.length + (found && !found.has(k) ? 2 : k & 1));
  }

  pin(k, { centre = false } = {}) {
    this.pinned = k;
    if (centre && k >= 0) {  // into view, and wide enough to be seen
      const lives = this.memory.last[k] - this.memory.first[k] + 1, middle = this.memory.first[k] + lives / 2;
      const wide = (lives / (this.map.x1 - this.map.x0)) * (this.map.innerWidth || 1) >= 6;
      const span = wide ? this.map.x1 - this.map.x0 : Math.max(lives * 8, 24);
      if (!wide || middle < this.map.x0 || middle > this.map.x1) this.zoom(middle - span / 2, middle + span / 2);
    }
    this.drawOver();
    this.choose(k);
  }

  zoom(x0, x1, y0 = this.map.y0, y1 = this.map.y1) {
    const steps = this.memory.steps, width = Math.min(steps, Math.max(x1 - x0, Math.min(4, steps)));
    const left = Math.max(0, Math.min((x0 + x1 - width) / 2, steps - width));
    const height = Math.min(this.top, Math.max(y1 - y0, this.top / 1e4));
    const low = Math.max(0, Math.min((y0 + y1 - height) / 2, this.top - height));
    for (const plot of [this.map, this.over]) plot.scale(left, left + width, low, low + height);
    const range = `${countText(Math.floor(left))} to ${countText(Math.ceil(left + width) - 1)}`, { unit } = this.memory;
    this.caption.textContent = `Alive at operators ${range}: ${sizeText(this.memory.peak, unit)} at the peak, ${sizeText(this.memory.naive, unit)} without sharing`;
    this.draw();
  }

  scale(factor, at = (this.map.x0 + this.map.x1) / 2) {
    const { x0, x1 } = this.map;
    this.zoom(at - (at - x0) * factor, at + (x1 - at) * factor);
  }

  get isWhole() {
    return this.map.x1 - this.map.x0 >= this.memory.steps && this.map.y1 - this.map.y0 >= this.top;
  }

  #resize() {
    const width = this.stage.clientWidth;
    if (width <= MARGIN.left + MARGIN.right) return;
    const height = width < 560 ? 300 : 400;
    this.map.resize(width, height);
    this.over.resize(width, height);
    this.curve.resize(width);
    this.stage.style.height = `${height}px`;
    this.drawNow();
  }

  draw() {
    this.waiting ||= requestAnimationFrame(() => { this.waiting = 0; this.drawNow(); });
  }

  drawNow() {
    if (!this.map.pen) return;
    this.#drawMap();
    this.#drawCurve();
    this.drawOver();
  }

  // Neighbours in time differ a little in their shade.
  #drawMap() {
    const { memory, map, raster, base, classes } = this, { pen, ratio } = map, { left, top } = map.margin;
    map.axes(memory.unit);
    const inks = Uint32Array.from([0, ...classes.classes.flatMap(([, style]) => SHADES.map((alpha) => ink(pen, colour(style), alpha)))]);
    const named = [];
    raster.resize(map);
    raster.rectangles(map, memory, base, this.tones, inks, (k, x0, y0, x1, y1) => {
      if (named.length < 400 && (this.tones[k] - 1) % SHADES.length < 2) named.push([k, left + x0 / ratio, top + y0 / ratio, (x1 - x0) / ratio, (y1 - y0) / ratio]);
    });
    if (this.found) raster.rectangles(map, memory, base, this.tones, inks, () => {}, this.found);  // above all others
    raster.show(map);
    pen.save();
    map.clip();
    pen.textAlign = "left";
    pen.textBaseline = "middle";
    pen.fillStyle = colour("--ink");
    for (const [k, x, y, w, h] of named) {
      const begin = Math.max(x, map.margin.left), room = Math.min(x + w, map.width - map.margin.right) - begin - 10;
      if (room > 40) pen.fillText(fitted(pen, memory.names[k], room), begin + 5, y + Math.min(h / 2, 12));
    }
    pen.restore();
    this.#lines();
  }

  #lines() {
    const { memory, map } = this, { pen } = map;
    const x = map.x(memory.peakOp), w = Math.max(map.x(memory.peakOp + 1) - x, 1.5);
    if (x + w > map.margin.left && x < map.width - map.margin.right) {
      pen.save();
      map.clip();
      pen.fillStyle = colour("--hot");
      pen.globalAlpha = 0.13;
      pen.fillRect(x, map.margin.top, w, map.innerHeight);
      pen.restore();
    }
    const taken = [];
    if (this.view === "arena") {
      const same = memory.bound === memory.arena;
      map.level(memory.arena, same ? `arena = lower bound ${sizeText(memory.arena, memory.unit)}` : `arena ${sizeText(memory.arena, memory.unit)}`, "--accent", taken);
      if (!same) map.level(memory.bound, `lower bound ${sizeText(memory.bound, memory.unit)}`, "--good", taken);
    }
    if (this.starts.length > 1) {
      pen.strokeStyle = colour("--line");
      for (const start of this.starts) {
        const y = Math.round(map.y(start)) + 0.5;
        if (y < map.margin.top || y > map.height - map.margin.bottom) continue;
        pen.beginPath();
        pen.moveTo(map.margin.left, y);
        pen.lineTo(map.width - map.margin.right, y);
        pen.stroke();
      }
    }
  }

  #drawCurve() {
    const { memory, curve, map } = this, { pen } = curve;
    curve.scale(map.x0, map.x1, 0, Math.max(memory.peak, memory.arena, 1) * 1.08);
    curve.axes(memory.unit, { most: 4 });
    this.envelope.resize(curve);
    this.envelope.steps(curve, memory.times, memory.live, ink(pen, colour("--accent"), 0.14), ink(pen, colour("--accent"), 1));
    this.envelope.show(curve);
    const taken = [];
    if (memory.arena !== memory.bound) curve.level(memory.arena, "arena", "--accent", taken);
    curve.level(memory.bound, "lower bound", "--good", taken);
  }

  drawOver() {
    const { over, memory, base } = this, { pen } = over;
    if (!pen) return;
    pen.clearRect(0, 0, over.width, over.height);
    pen.save();
    over.clip();
    for (const [k, style, width] of [[this.hover, "--text", 1.5], [this.pinned, "--text", 2.5]]) {
      if (k < 0) continue;
      const x = over.x(memory.first[k]), y = over.y(base[k] + memory.size[k]);
      pen.strokeStyle = colour(style);
      pen.lineWidth = width;
      pen.strokeRect(x, y, Math.max(over.x(memory.last[k] + 1) - x, 2), Math.max(over.y(base[k]) - y, 2));
    }
    if (this.brush) {
      pen.fillStyle = colour("--accent");
      pen.globalAlpha = 0.18;
      const [a, b] = this.brush;
      pen.fillRect(Math.min(a, b), over.margin.top, Math.abs(b - a), over.innerHeight);
    }
    pen.restore();
  }

  // The record that is drawn at a point, or that lies nearest within two pixels; -1 for none.
  at(x, y) {
    const { memory, map, base } = this, op = map.opAt(x), byte = map.byteAt(y);
    const across = map.innerWidth / (map.x1 - map.x0), up = map.innerHeight / (map.y1 - map.y0);
    let best = -1, least = 2;
    for (let k = 0; k < memory.count; k++) {
      if (!this.tones[k]) continue;
      const far = Math.max((memory.first[k] - op) * across, (op - memory.last[k] - 1) * across, (base[k] - byte) * up, (byte - base[k] - memory.size[k]) * up, 0);
      if (far <= least) { least = far; best = k; }  // of two that share bytes the later one is seen
    }
    return best;
  }

  #point(event) {
    const box = this.over.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  #listen() {
    const { canvas } = this.over;
    canvas.addEventListener("wheel", (event) => {
      if (this.isWhole && event.deltaY > 0) return;  // nothing to zoom out of: the page scrolls
      event.preventDefault();
      const [x, y] = this.#point(event), factor = Math.exp(Math.max(-50, Math.min(50, event.deltaY)) * 0.006);
      if (event.shiftKey) {
        const by = ((event.deltaY || event.deltaX) / this.map.innerWidth) * (this.map.x1 - this.map.x0);
        this.zoom(this.map.x0 + by, this.map.x1 + by);
      } else if (event.altKey) {
        const byte = this.map.byteAt(y), { y0, y1 } = this.map;
        this.zoom(this.map.x0, this.map.x1, byte - (byte - y0) * factor, byte + (y1 - byte) * factor);
      } else this.scale(factor, this.map.opAt(x));
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      const [x, y] = this.#point(event);
      this.drag = { x, y, pan: event.shiftKey || event.pointerType === "touch", x0: this.map.x0, x1: this.map.x1 };
    });
    canvas.addEventListener("pointermove", (event) => this.#move(event));
    canvas.addEventListener("pointerup", (event) => this.#up(event));
    canvas.addEventListener("pointercancel", () => { this.drag = this.brush = null; this.drawOver(); });
    canvas.addEventListener("pointerleave", () => this.#tip(-1));
    canvas.addEventListener("dblclick", () => this.zoom(0, this.memory.steps, 0, this.top));
    canvas.addEventListener("keydown", (event) => this.#key(event));
  }

  #move(event) {
    const [x, y] = this.#point(event), { drag } = this;
    if (!drag) return this.#tip(this.at(x, y), event);
    if (Math.abs(x - drag.x) < 4 && !drag.far) return;
    drag.far = true;
    this.#tip(-1);
    if (drag.pan) {
      const by = ((drag.x - x) / this.map.innerWidth) * (drag.x1 - drag.x0);
      this.zoom(drag.x0 + by, drag.x1 + by);
    } else {
      this.brush = [drag.x, x];
      this.drawOver();
    }
  }

  #up(event) {
    const { drag, brush } = this, [x, y] = this.#point(event);
    this.drag = this.brush = null;
    if (!drag) return;
    if (!drag.far) this.pin(this.at(x, y));
    else if (brush) this.zoom(this.map.opAt(Math.min(...brush)), this.map.opAt(Math.max(...brush)));
    this.drawOver();
  }

  #key(event) {
    const { memory } = this, by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (by) {
      this.order ??= Array.from({ length: memory.count }, (_, k) => k).sort((a, b) => memory.first[a] - memory.first[b]);
      const place = this.order.indexOf(this.pinned);
      this.pin(this.order[Math.max(0, Math.min(memory.count - 1, place + by))] ?? -1, { centre: !this.isWhole });
    } else if (event.key === "ArrowUp" || event.key === "ArrowDown") {
      const span = (this.map.x1 - this.map.x0) * 0.2 * (event.key === "ArrowUp" ? 1 : -1);
      this.zoom(this.map.x0 + span, this.map.x1 + span);
    } else if (event.key === "+" || event.key === "=") this.scale(0.6);
    else if (event.key === "-") this.scale(1 / 0.6);
    else if (event.key === "0") this.zoom(0, memory.steps, 0, this.top);
    else if (event.key === "Escape") this.pin(-1);
    else return;
    event.preventDefault();
  }

  #tip(k, event) {
    if (k !== this.hover) {
      this.hover = k;
      this.drawOver();
    }
    this.over.canvas.style.cursor = k >= 0 ? "pointer" : "crosshair";
    this.tip.hidden = k < 0;
    if (k < 0) return;
    const { memory } = this, first = memory.tensors[memory.tensorsOf[k][0]];
    const form = first?.dtype ? `${first.dtype} ${first.shape || "scalar"}` : "";
    const lines = [memory.names[k], [sizeText(memory.size[k], memory.unit), form].filter(Boolean).join(" · "),
      `${memory.label(memory.first[k])} → ${memory.label(memory.last[k])}`];
    this.tip.replaceChildren(...lines.map((text, n) => element(n ? "span" : "strong", { text })));
    const [x, y] = this.#point(event), box = this.tip.getBoundingClientRect();
    this.tip.style.left = `${Math.max(4, Math.min(x + 14, this.stage.clientWidth - box.width - 4))}px`;
    this.tip.style.top = `${y + box.height + 24 > this.stage.clientHeight ? y - box.height - 10 : y + 16}px`;
  }
}

// The text, or as much of its end as there is room for: names differ at their ends.
function fitted(pen, text, room) {
  if (pen.measureText(text).width <= room) return text;
  let low = 0, high = text.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (pen.measureText(`…${text.slice(middle)}`).width <= room) high = middle; else low = middle + 1;
  }
  return low < text.length - 2 ? `…${text.slice(low)}` : "";
}
