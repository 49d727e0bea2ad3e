// Colours of records, and the axes of a plot on a canvas.

const PALETTE = ["--c0", "--c1", "--c2", "--c3", "--c4", "--c5", "--c6", "--c7", "--c8"];
const RAMP = ["--r0", "--r1", "--r2", "--r3", "--r4"];

// How records are coloured: a class of each record, and the classes with their colours for the legend.
function colouring(memory, by) {
  if (by === "peak") {
    const alive = new Set(memory.atPeak);
    return { of: Array.from({ length: memory.count }, (_, k) => (alive.has(k) ? 0 : 1)),
      classes: [["alive at the peak", "--hot"], ["not", "--cold"]] };
  }
  if (by === "lifetime") {
    const of = Array.from(memory.first, (first, k) => {
      const share = (memory.last[k] - first + 1) / memory.steps, operators = memory.last[k] - first + 1;
      return operators <= 2 ? 0 : share < 0.05 ? 1 : share < 0.2 ? 2 : share < 0.6 ? 3 : 4;
    });
    return { of, classes: ["2 operators or fewer", "below 5 %", "below 20 %", "below 60 % of the run", "longer"].map((t, k) => [t, RAMP[k]]) };
  }
  const names = by === "layer" ? memory.layer : Array.from(memory.kind, (kind) => memory.kinds[kind]);
  const bytes = new Map();
  names.forEach((name, k) => bytes.set(name, (bytes.get(name) ?? 0) + memory.size[k] * (memory.last[k] - memory.first[k] + 1)));
  const ranked = [...bytes].sort((a, b) => b[1] - a[1]).map(([name]) => name);
  const head = ranked.length > PALETTE.length ? ranked.slice(0, PALETTE.length - 1) : ranked;
  const place = new Map(head.map((name, k) => [name, k]));
  const classes = head.map((name, k) => [name || "tensor", PALETTE[k]]);
  if (head.length < ranked.length) classes.push([`${ranked.length - head.length} others`, "--cold"]);
  return { of: names.map((name) => place.get(name) ?? head.length), classes };
}

// Steps of an axis: operators are whole numbers, bytes go by powers of two.
function ticks(low, high, most, binary) {
  const span = Math.max(high - low, 1e-9);
  let step = 1;
  if (binary) while (span / step > most) step *= 2;
  else for (const factors = [2, 2.5, 2]; span / step > most; factors.push(factors.shift())) step *= factors[0];
  const marks = [];
  for (let value = Math.ceil(low / step) * step; value <= high; value += step) marks.push(value);
  return marks;
}

// A size on an axis, in the unit of the whole axis.
function axisText(value, most) {
  const [name, factor] = UNITS.find(([, factor]) => most >= factor) ?? ["B", 1];
  return `${Number((value / factor).toFixed(3))} ${name}`;
}

class Plot {
  // A canvas that keeps its size in CSS pixels; `margin` is what axes take.
  constructor(height, margin) {
    this.canvas = element("canvas");
    this.height = height;
    this.margin = margin;
  }

  resize(width, height = this.height) {
    const ratio = (this.ratio = Math.min(window.devicePixelRatio || 1, 2));
    this.width = width;
    this.height = height;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    this.pen = this.canvas.getContext("2d");
    this.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.pen.font = "11px system-ui, sans-serif";
  }

  get innerWidth() { return this.width - this.margin.left - this.margin.right; }
  get innerHeight() { return this.height - this.margin.top - this.margin.bottom; }

  scale(x0, x1, y0, y1) {
    Object.assign(this, { x0, x1, y0, y1 });
  }

  x(value) { return this.margin.left + ((value - this.x0) / (this.x1 - this.x0)) * this.innerWidth; }
  y(value) { return this.margin.top + (1 - (value - this.y0) / (this.y1 - this.y0)) * this.innerHeight; }
  opAt(pixel) { return this.x0 + ((pixel - this.margin.left) / this.innerWidth) * (this.x1 - this.x0); }
  byteAt(pixel) { return this.y0 + (1 - (pixel - this.margin.top) / this.innerHeight) * (this.y1 - this.y0); }

  clip() {
    this.pen.beginPath();
    this.pen.rect(this.margin.left, this.margin.top, this.innerWidth, this.innerHeight);
    this.pen.clip();
  }

  axes(unit, { below = true, most = 6 } = {}) {
    const { pen } = this;
    pen.clearRect(0, 0, this.width, this.height);
    pen.lineWidth = 1;
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (const value of ticks(this.y0, this.y1, most, true)) {
      const y = Math.round(this.y(value)) + 0.5;
      pen.strokeStyle = colour("--grid");
      pen.beginPath();
      pen.moveTo(this.margin.left, y);
      pen.lineTo(this.width - this.margin.right, y);
      pen.stroke();
      pen.fillStyle = colour("--muted");
      pen.fillText(unit === "texels" ? countText(value) : axisText(value, this.y1), this.margin.left - 8, y);
    }
    if (!below) return;
    pen.textAlign = "center";
    pen.textBaseline = "top";
    for (const value of ticks(this.x0, this.x1 - 1, Math.max(2, this.innerWidth / 90), false)) {
      const text = countText(value), half = pen.measureText(text).width / 2;
      pen.fillText(text, Math.min(this.x(value + 0.5), this.width - half - 2), this.height - this.margin.bottom + 7);
    }
  }

  // A horizontal line with its name at the right end; names that would touch an earlier one are left out.
  level(value, name, style, taken = []) {
    const { pen } = this, y = Math.round(this.y(value)) + 0.5;
    if (y < this.margin.top || y > this.height - this.margin.bottom + 1) return;
    pen.save();
    pen.strokeStyle = colour(style);
    pen.setLineDash([5, 4]);
    pen.beginPath();
    pen.moveTo(this.margin.left, y);
    pen.lineTo(this.width - this.margin.right, y);
    pen.stroke();
    pen.restore();
    if (taken.some((other) => Math.abs(other - y) < 8)) return;
    const above = y > this.margin.top + 16 && !taken.some((other) => other < y && y - other < 32);
    taken.push(y);
    pen.textAlign = "right";
    pen.textBaseline = above ? "bottom" : "top";
    const width = pen.measureText(name).width, right = this.width - this.margin.right - 4;
    pen.fillStyle = colour("--surface");
    pen.globalAlpha = 0.8;
    pen.fillRect(right - width - 3, above ? y - 15 : y + 2, width + 6, 13);
    pen.globalAlpha = 1;
    pen.fillStyle = colour(style);
    pen.fillText(name, right, above ? y - 3 : y + 3);
  }
}
