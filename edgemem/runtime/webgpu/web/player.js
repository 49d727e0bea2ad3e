// @ts-check
/**
 * Runs a model that `edgemem export -f web` wrote in its plan through WebGPU; see player.d.ts.
 *
 * It checks all that it loads before it opens a device. Nothing of a bundle is evaluated but WGSL.
 *
 * @import { Border, LoadOptions, Output, Program, ProgramTensor, Value } from "./player.d.ts"
 */

const ALIGNMENT = 256; // of offsets and rows, in bytes
const OUTPUT = 6; // the binding that is written
// GPUMapMode, GPUBufferUsage, all of GPUTextureUsage
const [READ, COPY_SRC, COPY_DST, STORAGE, TEXTURE] = [1, 4, 8, 128, 15];
const CONSTANT = "read-only-storage";
// numbers of a piece, kinds of bindings
const IMAGE = [2, "texture", "write"];
const STORAGES = {
  buffer: [1, "storage", "storage"],
  texture2d: IMAGE,
  "texture-linear": IMAGE,
  "texture-array": [3, "texture-array", "write-array"],
};
const FORMATS = /** @type {const} */ ({ fp32: "rgba32float", fp16: "rgba16float" });
const EXACT = { fp32: 2 ** 24, fp16: 2 ** 11 }; // exact integers
const G = /** @type {any} */ (globalThis);
const DTYPE = /^(float(16|32)|bool|u?int(8|16|32|64))$/;

export class EdgememError extends Error {
  name = "EdgememError";
}

/** @param {string | URL} folder @param {LoadOptions} [options] */
export async function load(folder, options = {}) {
  const root = new URL(folder, G.document?.baseURI ?? G.location?.href);
  if (!root.pathname.endsWith("/")) root.pathname += "/";
  const program = parse(await read(root, "program.json", 2 ** 26, options.sha256));
  let done = 0;
  const [texts, weights] = await Promise.all(
    ["kernels.wgsl", "weights.bin"].map(async (name, _, names) => {
      const { bytes, sha256 } = program.files[/** @type {"weights.bin"} */ (name)];
      const content = await read(root, name, bytes, sha256);
      options.progress?.({ stage: "download", done: ++done, total: names.length });
      return content;
    }),
  );
  const device = await open(program, options);
  try {
    const model = new Model(program, device, options);
    await model._start(texts, weights, options);
    return model;
  } catch (error) {
    device.destroy();
    return fail("the GPU refuses the model", error);
  }
}

export class Model {
  /** @type {Program} */ program;
  /** @type {GPUDevice} */ #device;
  /** @type {GPUBuffer[] | GPUTexture[]} */ #pieces = [];
  /** @type {{ piece: number, offset: number }[]} */ #places;
  /** @type {{ pipeline: GPUComputePipeline, group: GPUBindGroup, groups: [number, number, number] }[]} */ #passes = [];
  /** @type {Promise<unknown>} */ #queue = Promise.resolve();
  #lost = "";
  #shared = true;
  bytes = 0;
  weightBytes = 0;

  /** @param {Program} program @param {GPUDevice} device @param {LoadOptions} options */
  constructor(program, device, options) {
    const { name, plan, inputs, outputs, kernels, tensors } = program;
    Object.assign(this, { name, plan, inputs, outputs, kernels: kernels.length });
    this.program = program;
    this.#device = device;
    this.#shared = options.shared ?? true;
    this.#places = tensors.map(({ piece, offset }) => ({ piece, offset }));
    device.lost.then(({ message, reason }) => (this.#lost ||= `the GPU device is lost: ${message || reason}; load the model again`));
    device.addEventListener("uncapturederror", (event) => {
      event.preventDefault();
      this.#lost ||= `the GPU refuses the model: ${event.error.message}`;
    });
  }

  /** @param {Uint8Array} texts @param {Uint8Array} weights @param {LoadOptions} options */
  async _start(texts, weights, options) {
    const [device, program] = [this.#device, this.program];
    const prelude = program.preludes[device.features.has("shader-f16") ? 1 : 0];
    let done = 0;
    const compiling = program.kernels.map(async ({ name, offset, bytes, layout }, _, { length: total }) => {
      const code = prelude + new TextDecoder().decode(texts.subarray(offset, offset + bytes));
      const entries = layout.map(([binding, kind]) => entry(binding, kind, program.precision));
      const groups = device.createBindGroupLayout({ entries });
      const compute = { module: device.createShaderModule({ code }), entryPoint: "main" };
      const made = { layout: device.createPipelineLayout({ bindGroupLayouts: [groups] }), compute };
      const pipeline = await device.createComputePipelineAsync(made).catch((error) => fail(`the GPU refuses the kernel ${name}`, error));
      options.progress?.({ stage: "compile", done: ++done, total });
      return { pipeline, groups };
    });
    const pipelines = await Promise.all(compiling);
    await scoped(device, "memory or a binding", () => {
      this.#allocate();
      let at = 0;
      const constants = program.constants.map((size) => {
        const buffer = device.createBuffer({ size, usage: STORAGE | COPY_DST });
        device.queue.writeBuffer(buffer, 0, weights, at, size);
        at += size;
        this.weightBytes += buffer.size;
        return buffer;
      });
      for (const pass of program.passes) {
        if (pass.view) continue;
        const { pipeline, groups } = pipelines[pass.kernel];
        const entries = pass.tensors.map(([binding, tensor]) => ({ binding, resource: this.#resource(tensor) }));
        for (const [binding, array] of pass.arrays) {
          const [buffer, offset, size] = program.arrays[array];
          entries.push({ binding, resource: { buffer: constants[buffer], offset, size } });
        }
        const group = device.createBindGroup({ layout: groups, entries });
        this.#passes.push({ pipeline, group, groups: pass.groups });
      }
    });
  }

  /** @param {Record<string, Value>} feeds @returns {Promise<Record<string, Output>>} */
  run(feeds) {
    const result = this.#queue.then(() => this.#run(feeds));
    this.#queue = result.catch(() => {});
    return result;
  }

  close() {
    this.#lost ||= "the model is closed; load it again";
    this.#device.destroy();
  }

  #allocate() {
    const { tensors, passes, precision, storage } = this.program;
    let { pieces } = this.program;
    if (!this.#shared) {
      const own = tensors.map((_, k) => k); // second names, and what is written over, stay there
      for (const { view, over, tensors: bound } of passes) {
        if (view) own[view[1]] = own[view[0]];
        else if (over >= 0) own[bound[bound.length - 1][1]] = own[over];
      }
      const first = own.filter((k, at) => k === at);
      pieces = first.map((k) => sizeOf(tensors[k]));
      this.#places = own.map((k) => ({ piece: first.indexOf(k), offset: 0 }));
    }
    if (storage === "buffer") {
      const usage = STORAGE | COPY_SRC | COPY_DST;
      this.#pieces = pieces.map(([size]) => this.#device.createBuffer({ size: Math.ceil(size / 4) * 4, usage }));
      this.bytes = sum(this.#pieces.map((piece) => piece.size));
    } else {
      const format = FORMATS[precision];
      this.#pieces = pieces.map((size) => this.#device.createTexture({ size, format, usage: TEXTURE }));
      const texels = this.#pieces.map((piece) => piece.width * piece.height * piece.depthOrArrayLayers);
      this.bytes = sum(texels) * texelBytes(this.program);
    }
  }

  #held(number) {
    const { piece, offset } = this.#places[number];
    const tensor = this.program.tensors[number];
    const [width, height, layers] = tensor.extent;
    const row = (width ?? 0) * texelBytes(this.program);
    const layer = layers ? offset / (row * height) : 0;
    const size = /** @type {[number, number, number]} */ ([width, height, layers || 1]);
    return { held: this.#pieces[piece], tensor, offset, layer, size, row };
  }

  /** @param {number} number @returns {GPUBindingResource} */
  #resource(number) {
    const { held, tensor, offset, layer } = this.#held(number);
    if ("size" in held) return { buffer: held, offset, size: tensor.bytes };
    const arrayLayerCount = tensor.extent[2];
    return held.createView(arrayLayerCount ? { dimension: "2d-array", baseArrayLayer: layer, arrayLayerCount } : {});
  }

  async #run(feeds) {
    if (this.#lost) fail(this.#lost);
    const { inputs, outputs, precision } = this.program;
    const names = inputs.map(({ name }) => name);
    const others = Object.keys(feeds);
    if ([...others].sort().join() !== [...names].sort().join()) fail(`the inputs are ${names}, not ${others}`);
    const given = new Map(inputs.map((input) => [input.tensor, floats(feeds[input.name], input, precision)]));
    /** @type {Record<string, Output>} */
    const results = {};
    try {
      const staged = await scoped(this.#device, "a run", () => {
        for (const [number, values] of given) this.#write(number, values);
        const encoder = this.#device.createCommandEncoder();
        const pass = encoder.beginComputePass();
        for (const { pipeline, group, groups } of this.#passes) {
          pass.setPipeline(pipeline);
          pass.setBindGroup(0, group);
          pass.dispatchWorkgroups(...groups);
        }
        pass.end();
        const read = outputs.map((output) => (given.has(output.tensor) ? null : this.#stage(encoder, output.tensor)));
        this.#device.queue.submit([encoder.finish()]);
        return read;
      });
      for (const [k, output] of outputs.entries()) {
        const buffer = staged[k];
        await buffer?.mapAsync(READ);
        const values = buffer ? this.#values(output.tensor, buffer.getMappedRange()) : given.get(output.tensor);
        results[output.name] = { data: typed(/** @type {Float32Array} */ (values), output, precision), shape: output.shape };
        buffer?.destroy();
      }
    } catch (error) {
      fail(this.#lost || "the model does not run", this.#lost ? "" : error);
    }
    if (this.#lost) fail(this.#lost);
    return results;
  }

  #write(number, values) {
    const { held, tensor, offset, layer, size, row } = this.#held(number);
    const Numbers = numbersOf(this.program);
    const packed = new Numbers((row ? (product(size) * row) / size[0] : tensor.bytes) / Numbers.BYTES_PER_ELEMENT);
    each(tensor, (index, at) => (packed[at] = values[index]));
    if ("size" in held) this.#device.queue.writeBuffer(held, offset, packed);
    else {
      const layout = { bytesPerRow: row, rowsPerImage: size[1] };
      this.#device.queue.writeTexture({ texture: held, origin: [0, 0, layer] }, packed, layout, size);
    }
  }

  /** @param {GPUCommandEncoder} encoder */
  #stage(encoder, number) {
    const { held, tensor, offset, layer, size, row } = this.#held(number);
    const bytesPerRow = aligned(row);
    const bytes = row ? bytesPerRow * size[1] * size[2] : tensor.bytes;
    const buffer = this.#device.createBuffer({ size: bytes, usage: READ | COPY_DST });
    if ("size" in held) encoder.copyBufferToBuffer(held, offset, buffer, 0, bytes);
    else {
      const to = { buffer, bytesPerRow, rowsPerImage: size[1] };
      encoder.copyTextureToBuffer({ texture: held, origin: [0, 0, layer] }, to, size);
    }
    return buffer;
  }

  #values(number, data) {
    const { tensor, row } = this.#held(number);
    const Numbers = numbersOf(this.program);
    const numbers = new Numbers(data);
    const [used, whole] = [row, aligned(row)].map((n) => n / Numbers.BYTES_PER_ELEMENT);
    const values = new Float32Array(product(tensor.dims));
    each(tensor, (index, at) => (values[index] = numbers[row ? Math.floor(at / used) * whole + (at % used) : at]));
    return values;
  }
}

const product = (numbers) => numbers.reduce((a, b) => a * b, 1);
const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
const aligned = (bytes) => Math.ceil(bytes / ALIGNMENT) * ALIGNMENT;
/** @param {Program} program */
const texelBytes = ({ precision }) => (precision === "fp32" ? 16 : 8);
/** @param {ProgramTensor} tensor */
const sizeOf = ({ bytes, extent }) => (extent.length ? extent.filter((n) => n) : [bytes]);

/** @param {Program} program @returns {Float32ArrayConstructor} */
function numbersOf({ precision }) {
  const found = precision === "fp32" ? Float32Array : G.Float16Array;
  if (!found) fail("there is no Float16Array; export a plan in fp32");
  return found;
}

/** @param {string} what @param {any} [error] @returns {never} */
function fail(what, error) {
  if (error instanceof EdgememError) throw error;
  const why = String(error?.message ?? error ?? "").replace(/\s+/g, " ").slice(0, 400);
  throw new EdgememError(why ? `${what}: ${why}` : what, { cause: error });
}

function need(condition, message) {
  if (!condition) fail(`the bundle is damaged: ${message}`);
}

/** Each element's index in the order of the axes, and where it is in memory.
 * @param {ProgramTensor} tensor @param {(index: number, at: number) => void} visit */
function each({ dims: [batch, height, width, channels], extent, row, channels_first: isFirst }, visit) {
  const slices = Math.ceil(channels / 4);
  const isImage = extent.length && !row;
  for (let b = 0; b < batch; b++)
    for (let y = 0; y < height; y++)
      for (let x = 0; x < width; x++)
        for (let c = 0; c < channels; c++) {
          const s = c >> 2;
          const line = isImage ? y * slices + s : s * height + y;
          const index = isFirst ? ((b * channels + c) * height + y) * width + x : ((b * height + y) * width + x) * channels + c;
          visit(index, ((line * width + x) * batch + b) * 4 + (c & 3));
        }
}

/** @param {Value} value @param {Border} input */
function floats(value, { name, dtype, shape }, precision) {
  if (value.length !== product(shape)) fail(`${name} has the shape [${shape}], not ${value.length} numbers`);
  const found = Float32Array.from(/** @type {ArrayLike<number>} */ (value), Number);
  const most = dtype.startsWith("float") ? (precision === "fp16" ? 65504 : Infinity) : EXACT[precision];
  if (found.some((v) => Math.abs(v) > most && Number.isFinite(v))) fail(`${name} has a number beyond ${most}`);
  return found;
}

/** @param {Float32Array} values @param {Border} output */
function typed(values, { name, dtype }, precision) {
  const kind = dtype.replace("bool", "uint8").replace(/^u?./, (start) => start.toUpperCase()).replace("UI", "Ui");
  const Numbers = G[`${dtype.endsWith("int64") ? "Big" : ""}${kind}Array`] ?? Float32Array;
  if (dtype.startsWith("float")) return Numbers.from(values);
  if (dtype === "bool") return Numbers.from(values, (v) => Number(v !== 0));
  if (!values.every((v) => Math.abs(v) <= EXACT[precision])) fail(`${name} has a number that ${precision} rounds`);
  return Numbers.from(values, (v) => (dtype.endsWith("int64") ? BigInt(Math.round(v)) : Math.round(v)));
}

async function read(root, name, most, sha256) {
  const what = `${name} cannot be loaded from ${root}`;
  const response = await fetch(new URL(name, root), { cache: "no-cache" }).catch((error) => fail(what, error));
  if (!response.ok || !response.body) return fail(what, `status ${response.status}`);
  const parts = [];
  let size = 0;
  const reader = response.body.getReader();
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    size += part.value.length;
    if (size > most) await reader.cancel();
    need(size <= most, `${name} has more than ${most} bytes`);
    parts.push(part.value);
  }
  const data = await new Blob(parts).arrayBuffer();
  if (!G.crypto?.subtle) fail("digests need a page by https");
  const digest = Array.from(new Uint8Array(await crypto.subtle.digest("SHA-256", data)));
  const found = digest.map((byte) => byte.toString(16).padStart(2, "0")).join("");
  need(found === (sha256 ?? found), `${name} has the digest ${found}, not ${sha256}`);
  return new Uint8Array(data);
}

/** @returns {GPUBindGroupLayoutEntry} */
function entry(binding, kind, precision) {
  const visibility = 4; // GPUShaderStage.COMPUTE
  if (kind === "storage" || kind === CONSTANT) return { binding, visibility, buffer: { type: kind } };
  const viewDimension = kind.endsWith("-array") ? "2d-array" : "2d";
  if (kind.startsWith("texture")) return { binding, visibility, texture: { sampleType: "unfilterable-float", viewDimension } };
  return { binding, visibility, storageTexture: { access: "write-only", format: FORMATS[precision], viewDimension } };
}

/** What a function gives, once the GPU has found no error in it.
 * @template T @param {GPUDevice} device @param {string} what @param {() => T} act */
async function scoped(device, what, act) {
  const filters = /** @type {const} */ (["validation", "out-of-memory"]);
  filters.forEach((filter) => device.pushErrorScope(filter));
  const result = await new Promise((done) => done(act())).catch((error) => ({ error }));
  const errors = await Promise.all(filters.map(() => device.popErrorScope()));
  const found = result?.error ?? errors.find((error) => error);
  if (found) fail(`the GPU refuses ${what}`, found);
  return /** @type {T} */ (result);
}

/** @param {Program} program @param {LoadOptions} options */
async function open(program, { shared, powerPreference }) {
  const gpu = G.navigator?.gpu;
  if (!gpu) fail("there is no WebGPU: it needs a newer browser, and a page by https");
  const adapter = await gpu.requestAdapter({ powerPreference });
  if (!adapter) fail("this browser finds no GPU adapter");
  const { storage, tensors, constants, arrays, preludes } = program;
  const pieces = shared === false ? tensors.map(sizeOf) : program.pieces;
  const [buffers, textures, held] = storage === "buffer" ? [pieces, [], tensors] : [[], pieces, []];
  const requiredLimits = {
    maxBufferSize: Math.max(0, ...constants, ...buffers.flat()),
    maxStorageBufferBindingSize: Math.max(0, ...arrays.map((array) => array[2]), ...held.map(({ bytes }) => bytes)),
    maxTextureDimension2D: Math.max(0, ...textures.flatMap((piece) => piece.slice(0, 2))),
    maxTextureArrayLayers: Math.max(0, ...textures.map((piece) => piece[2] ?? 1)),
  };
  for (const [name, needed] of Object.entries(requiredLimits)) {
    const has = adapter.limits[name];
    if (needed > has) fail(`this GPU is too small: its ${name} is ${has}, not ${needed}`);
  }
  const has = preludes[1] && adapter.features.has("shader-f16");
  return adapter.requestDevice({ requiredFeatures: has ? ["shader-f16"] : [], requiredLimits }).catch((error) => fail("the browser opens no GPU device", error));
}

/** @returns {Program} */
function parse(data) {
  try {
    const program = JSON.parse(new TextDecoder().decode(data));
    check(program);
    checkPasses(program);
    return program;
  } catch (error) {
    return fail("the bundle is damaged: program.json", error);
  }
}

const isCount = (n, most = 2 ** 32, least = 0) => Number.isSafeInteger(n) && n >= least && n <= most;
const areCounts = (list, length, least, most) => list.length === length && list.every((n) => isCount(n, most, least));

function check(program) {
  const { storage, plan, pieces, tensors, constants, arrays, kernels, files } = program;
  need(program.format === "edgemem-program" && program.version === 1 && program.preludes[0], "its version is unknown; export it again");
  need(Object.hasOwn(STORAGES, storage) && Object.hasOwn(FORMATS, program.precision), "its storage is unknown");
  const [texts, weights] = [files["kernels.wgsl"], files["weights.bin"]];
  for (const { bytes, sha256 } of [texts, weights]) need(isCount(bytes) && /^[0-9a-f]{64}$/.test(sha256), "a file has no digest");
  const [rank, reads, writes] = STORAGES[storage];
  need(pieces.length && pieces.every((piece) => areCounts(piece, rank, 1)), "its memory has another form");
  const unit = texelBytes(program);
  const layer = rank === 3 ? pieces[0][0] * pieces[0][1] * unit : 1;
  const bytes = sum(pieces.map(product)) * (rank > 1 ? unit : 1);
  need(Math.ceil(plan.size / layer) * layer === bytes, `its memory has ${bytes} bytes, its plan ${plan.size}`);
  for (const tensor of tensors) need(isPlaced(tensor, program, unit), `${tensor.name} has no place for its shape`);
  const isWhole = areCounts(constants, constants.length, 4) && constants.every((n) => n % 4 === 0);
  need(isWhole && sum(constants) === weights.bytes, "weights.bin has another size");
  for (const [buffer, offset, size] of arrays) {
    const isWithin = isCount(offset) && isCount(size, constants[buffer] - offset, 4);
    need(isWithin && offset % ALIGNMENT === 0 && size % 4 === 0, "an array of weights is not in its buffer");
  }
  for (const { name, offset, bytes, layout } of kernels) {
    need(isCount(offset) && isCount(bytes, texts.bytes - offset, 1), `the kernel ${name} is not in its file`);
    const isKnown = layout.every(([n, kind]) => isCount(n, 8, 1) && (kind === CONSTANT || kind === (n === OUTPUT ? writes : reads)));
    need(isKnown && new Set(layout.map(([n]) => n)).size === layout.length, `the kernel ${name} has other bindings`);
  }
  for (const { name, dtype, shape, tensor } of [...program.inputs, ...program.outputs]) {
    const isHeld = isCount(tensor, tensors.length - 1) && DTYPE.test(dtype) && areCounts(shape, shape.length, 1);
    const isShaped = isHeld && product(shape) === product(tensors[tensor].dims);
    need(isShaped && typeof name === "string", `${name} is not its tensor`);
  }
}

/** Whether a tensor is within its memory. */
function isPlaced({ piece, offset, bytes, dims, extent, row }, { storage, pieces }, unit) {
  if (!areCounts(dims, 4, 1) || !isCount(piece, pieces.length - 1) || !isCount(offset) || !isCount(row)) return false;
  const [batch, height, width, channels] = dims;
  const slices = Math.ceil(channels / 4);
  const [texels, size] = [batch * height * width * slices, pieces[piece]];
  if (storage === "buffer") {
    return !extent.length && bytes === texels * unit && offset % ALIGNMENT === 0 && offset + bytes <= size[0];
  }
  const [wide, high, layers] = extent;
  if (storage === "texture-array") {
    const layer = wide * high * unit;
    const isWhole = wide === size[0] && high === size[1] && row === wide && layers === Math.ceil(texels / (wide * high));
    return isWhole && bytes === layers * layer && offset % layer === 0 && offset + bytes <= layer * size[2];
  }
  const [w, h] = row ? [Math.min(row, texels), Math.ceil(texels / row)] : [width * batch, height * slices];
  return wide === w && high === h && layers === 0 && bytes === texels * unit && offset === 0 && w <= size[0] && h <= size[1];
}

/** That passes bind what kernels ask for and read what is there. */
function checkPasses({ tensors, kernels, arrays, passes, storage, inputs, outputs }) {
  const isTensor = (n) => isCount(n, tensors.length - 1);
  const isSame = (a, b) => ["piece", "offset", "bytes"].every((key) => tensors[a][key] === tensors[b][key]);
  const isShared = (a, b) => {
    const [one, two] = [tensors[a], tensors[b]];
    const isApart = one.offset + one.bytes <= two.offset || two.offset + two.bytes <= one.offset;
    return one.piece === two.piece && !(isApart && STORAGES[storage][0] !== 2);
  };
  const left = new Map(); // parts to be written
  const write = (tensor, parts) => {
    for (const other of left.keys()) if (isShared(other, tensor)) left.delete(other);
    left.set(tensor, parts);
  };
  const isRead = (tensor, op) => need(left.get(tensor) === 0, `${op} reads ${tensors[tensor]?.name}, which is gone`);
  for (const { tensor } of inputs) write(tensor, 0);
  for (const { tensor, name } of inputs) isRead(tensor, name);
  for (const { op, view, kernel, tensors: bound, arrays: weights, reads, over, groups, part } of passes) {
    if (view) {
      isRead(view[0], op);
      need(isTensor(view[1]) && isSame(view[0], view[1]), `${op} moves what it should not`);
      left.set(view[1], 0);
      continue;
    }
    const layout = new Map(kernels[kernel].layout);
    const slots = [...bound, ...weights].map(([binding]) => binding);
    const isBound =
      areCounts(groups, 3, 1, 65535) && slots.length === layout.size && new Set(slots).size === slots.length &&
      bound.every(([slot, tensor]) => layout.has(slot) && layout.get(slot) !== CONSTANT && isTensor(tensor)) &&
      weights.every(([slot, array]) => layout.get(slot) === CONSTANT && isCount(array, arrays.length - 1));
    need(isBound && bound.at(-1)?.[0] === OUTPUT, `${op} has other bindings`);
    const held = bound.map(([, tensor]) => tensor);
    const output = held.at(-1);
    for (const tensor of [...held.slice(0, -1), ...reads]) isRead(tensor, op);
    need(reads.every((tensor) => held.some((other) => isSame(other, tensor))), `${op} does not bind what it reads`);
    const isCrossed = (a, k) => held.slice(k + 1).some((b) => (storage === "buffer" || b === output) && isShared(a, b));
    need(!held.some(isCrossed), `tensors of ${op} overlap`);
    const isOver = over === -1 ? reads.every((r) => !isSame(r, output)) : reads.includes(over) && isSame(over, output);
    const isPart = part[0] || left.get(output) === part[1] + 1;
    need(isOver && isPart, `${op} writes over another tensor`);
    write(output, part[1]);
  }
  for (const { tensor } of inputs) left.set(tensor, 0); // as outputs they are what was given
  for (const { tensor, name } of outputs) isRead(tensor, name);
}
