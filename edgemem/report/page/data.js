// The data of the page, decoded: columns by record, operators over tensors, and how they are written for people.

const UNITS = [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]];
const number = new Intl.NumberFormat("en-US");

const countText = (n) => number.format(n);

function sizeText(n, unit = "bytes") {
  if (unit === "texels") return `${countText(n)} texels`;
  for (const [name, factor] of UNITS) if (Math.abs(n) >= factor) return `${(n / factor).toFixed(2)} ${name}`;
  return `${countText(n)} B`;
}

const percentText = (share) => `${share >= 0 ? "+" : "−"}${Math.abs(share * 100).toFixed(1)} %`;

// How many characters a name shares with another one, a space, and the rest.
function heard(text, other) {
  const space = text.indexOf(" ");
  return other.slice(0, Number(text.slice(0, space))) + text.slice(space + 1);
}

function decodeNames(coded) {
  let before = "";
  return coded.map((text) => (before = heard(text, before)));
}

// Names in models may hold anything; what steers the direction of writing or cannot be seen is shown as a box.
const visible = (text) => text.replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g, "�");

// A name may be broken behind what separates its parts.
const breakable = (text) => text.replace(/([_/.:])(?=.)/g, "$1\u200b");

class Memory {
  constructor(data) {
    for (const key of ["name", "subject", "target", "unit", "strategy", "arena", "naive", "tail", "whole", "kernels"]) {
      this[key] = typeof data[key] === "string" ? visible(data[key]) : data[key];
    }
    this.bound = data.lower_bound;
    this.peakOp = data.peak_op;
    this.peak = data.peak;
    const [arena, bound, results] = data.recorded ?? [];
    this.recorded = data.recorded ? { arena, bound, results } : null;
    this.memory = this.recorded ? arena + (results ?? 0) : Math.max(this.arena + this.tail, this.whole);
    this.objects = data.objects;
    this.plans = data.plans.map(([family, strategy, size, optimal, stopped]) => (
      { family, strategy: visible(strategy), size, optimal, stopped }));
    this.unplanned = data.unplanned;
    this.versions = data.versions;
    this.#records(data.records);
    this.#tensors(data.tensors);
    this.#operators(data.operators);
    this.#alive();
  }

  #records(r) {
    this.count = r.first.length;
    this.names = r.name;
    this.first = Float64Array.from(r.first);
    this.last = Float64Array.from(r.first, (first, k) => first + r.length[k]);
    this.size = Float64Array.from(r.size);
    this.offset = Float64Array.from(r.offset);
    this.kinds = r.kinds;
    this.kind = r.kind;
    this.region = r.region.length ? r.region : new Array(this.count).fill(0);
    this.object = r.object;
    // No texture begins inside another one: offsets mean nothing where there are objects in texels.
    this.hasOffsets = r.offset.some((offset) => offset >= 0) && !(this.unit === "texels" && this.objects.length);
  }

  #tensors(t) {
    const names = (this.rawNames = decodeNames(t.name));
    this.tensors = names.map((name, k) => ({
      name: visible(name),
      dtype: t.dtypes[t.dtype[k]],
      shape: t.shapes[t.shape[k]].split(",").filter(Boolean).join("×"),
      record: t.record[k],
    }));
    this.tensorsOf = Array.from({ length: this.count }, () => []);
    this.tensors.forEach((tensor, k) => tensor.record >= 0 && this.tensorsOf[tensor.record].push(k));
    this.names = this.names.map((name, k) => (name === 0 ? this.tensors[this.tensorsOf[k][0]].name : visible(name)));
  }

  #operators(o) {
    this.ops = o.label.map((label, k) => ({
      label: visible(heard(label, o.writes[k].length ? this.rawNames[o.writes[k][0]] : "")),
      type: visible(o.types[o.type[k]]),
      reads: o.reads[k],
      writes: o.writes[k],
      weights: o.weights[k],
      macs: o.macs[k],
    }));
    let end = 0;
    for (const last of this.last) end = Math.max(end, last + 1);
    this.steps = Math.max(this.ops.length, end, 1);
    this.producer = new Int32Array(this.tensors.length).fill(-1);
    this.readers = Array.from({ length: this.tensors.length }, () => []);
    this.ops.forEach((op, k) => {
      for (const t of op.writes) this.producer[t] = k;
      for (const t of op.reads) this.readers[t].push(k);
    });
    this.layer = Array.from({ length: this.count }, (_, k) => {
      if (this.kinds[this.kind[k]] === "scratch") return "workspace";
      const made = this.tensorsOf[k].map((t) => this.producer[t]).filter((op) => op >= 0);
      return made.length ? this.ops[Math.min(...made)].type : this.ops.length ? "input" : "record";
    });
  }

  // Bytes alive from each moment on at which anything begins or ends, and what is alive at the peak.
  #alive() {
    const change = new Map();
    for (let k = 0; k < this.count; k++) {
      change.set(this.first[k], (change.get(this.first[k]) ?? 0) + this.size[k]);
      change.set(this.last[k] + 1, (change.get(this.last[k] + 1) ?? 0) - this.size[k]);
    }
    this.times = Float64Array.from(change.keys()).sort();
    let sum = 0;
    this.live = Float64Array.from(this.times, (time) => (sum += change.get(time)));
    this.atPeak = [];
    for (let k = 0; k < this.count; k++) {
      if (this.first[k] <= this.peakOp && this.peakOp <= this.last[k] && this.size[k]) this.atPeak.push(k);
    }
    this.atPeak.sort((a, b) => this.size[b] - this.size[a]);
  }

  // The size that is alive at an operator: the last change at or before it.
  aliveAt(op) {
    let low = 0, high = this.times.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.times[middle] <= op) low = middle + 1; else high = middle;
    }
    return low ? this.live[low - 1] : 0;
  }

  label(op) {
    return this.ops[op] ? this.ops[op].label || this.ops[op].type : `op ${op}`;
  }

  // Where each record begins in a view: bytes of the arena (regions one above the other), or in its shared object.
  bases(view) {
    const starts = [0];
    if (view === "objects") {
      for (const size of this.objects) starts.push(starts.at(-1) + size);
      return { base: Float64Array.from(this.object, (object) => starts[object]), height: starts.at(-1), starts };
    }
    const heights = [];
    for (let k = 0; k < this.count; k++) {
      const region = this.region[k];
      heights[region] = Math.max(heights[region] ?? 0, this.offset[k] + this.size[k]);
    }
    for (let k = 0; k < heights.length; k++) starts.push(starts.at(-1) + (heights[k] ?? 0));
    const base = Float64Array.from(this.offset, (offset, k) => offset + starts[this.region[k]]);
    return { base, height: Math.max(starts.at(-1), this.arena), starts: heights.length > 1 ? starts : [0] };
  }
}
