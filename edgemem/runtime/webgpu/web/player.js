// @ts-check
/**
 * Runs a model that `edgemem export -f web` wrote, inside its plan, through WebGPU. No dependencies; works in workers.
 *
 * All that is loaded is checked before a device is opened: digests (SHA-256), sizes, bindings within buffers, and that
 * no pass of the plan overwrites a tensor that a later one reads. Nothing of a bundle is evaluated but WGSL.
 *
 * @typedef {import("./player.d.ts").Program} Program
 * @typedef {import("./player.d.ts").ProgramTensor} ProgramTensor
 * @typedef {import("./player.d.ts").ProgramPass} ProgramPass
 * @typedef {import("./player.d.ts").LoadOptions} LoadOptions
 * @typedef {import("./player.d.ts").Value} Value
 * @typedef {import("./player.d.ts").Output} Output
 * @typedef {{ piece: number, offset: number }} Place
 */

const MOST_PROGRAM = 64 * 2 ** 20; // bytes of program.json
const MOST = 2 ** 32;
const ALIGNMENT = 256; // bytes: of offsets in buffers, and of rows copied to buffers
const SLICE = 4; // channels of a texel
const OUTPUT = 6; // the binding that is written
const COMPUTE = 4; // GPUShaderStage
// GPUMapMode, GPUBufferUsage and, all of them, GPUTextureUsage.
const [READ, COPY_SRC, COPY_DST, STORAGE, TEXTURE] = [1, 4, 8, 128, 15];
const KINDS = {
  buffer: ["storage", "storage"],
  texture2d: ["texture", "write"],
  "texture-linear": ["texture", "write"],
  "texture-array": ["texture-array", "write-array"],
};
const EXACT = { fp32: 2 ** 24, fp16: 2 ** 11 }; // up to here, each integer is a float of its own
const MOST_HALF = 65504;
const ARRAYS = /** @type {const} */ ({
  float32: "Float32Array", float16: "Float16Array", bool: "Uint8Array", int8: "Int8Array", uint8: "Uint8Array",
  int16: "Int16Array", uint16: "Uint16Array", int32: "Int32Array", uint32: "Uint32Array",
  int64: "BigInt64Array", uint64: "BigUint64Array",
});

/** What edgemem refuses, or what the browser or the GPU refused, in words. */
export class EdgememError extends Error {
  /** @param {string} message @param {ErrorOptions} [options] */
  constructor(message, options) {
    super(message, options);
    this.name = "EdgememError";
  }
}

/**
 * Load a bundle and put it on the GPU.
 *
 * @param {string | URL} folder of the bundle, relative to the page or worker.
 * @param {LoadOptions} [options]
 * @returns {Promise<Model>}
 */
export async function load(folder, options = {}) {
  const root = new URL(folder, globalThis.document?.baseURI ?? globalThis.location?.href);
  if (!root.pathname.endsWith("/")) root.pathname += "/";
  const progress = options.progress ?? (() => {});
  const data = await read(root, "program.json", MOST_PROGRAM);
  if (options.sha256 !== undefined) await checkDigest("program.json", data, options.sha256);
  const program = parse(data);
  let done = 0;
  const names = /** @type {const} */ (["kernels.wgsl", "weights.bin"]);
  const [texts, weights] = await Promise.all(
    names.map(async (name) => {
      const { bytes, sha256 } = program.files[name];
      const content = await read(root, name, bytes);
      need(content.length === bytes, `${name} has ${content.length} bytes, not ${bytes}`);
      await checkDigest(name, content, sha256);
      progress({ stage: "download", done: ++done, total: names.length });
      return content;
    }),
  );
  const device = await open(program, options);
  try {
    return await Model.make(program, texts, weights, device, options);
  } catch (error) {
    device.destroy();
    throw error instanceof EdgememError ? error : new EdgememError(`the GPU refuses the model: ${text(error)}`, { cause: error });
  }
}

/** A model on the GPU. */
export class Model {
  /** @type {Program} */ #program;
  /** @type {GPUDevice} */ #device;
  /** @type {GPUBuffer[] | GPUTexture[]} */ #pieces = [];
  /** @type {Place[]} */ #places = [];
  /** @type {Array<{ pipeline: GPUComputePipeline, group: GPUBindGroup, pass: ProgramPass }>} */ #passes = [];
  /** @type {Promise<unknown>} */ #queue = Promise.resolve();
  #lost = "";
  #poison = false;
  #shared = true;

  /** Bytes allocated for tensors: those of the plan. */
  bytes = 0;
  /** Bytes allocated for weights. */
  weightBytes = 0;
  /** Kernels that were compiled. */
  kernels = 0;

  /** @param {Program} program @param {GPUDevice} device @param {LoadOptions} options */
  constructor(program, device, options) {
    this.#program = program;
    this.#device = device;
    this.#poison = options.poison ?? false;
    this.#shared = options.shared ?? true;
    this.name = program.name;
    this.plan = program.plan;
    this.storage = program.storage;
    this.precision = program.precision;
    this.inputs = program.inputs;
    this.outputs = program.outputs;
    device.lost.then((info) => (this.#lost ||= `the GPU device is lost: ${info.message || info.reason}; load the model again`));
    device.addEventListener("uncapturederror", (event) => {
      event.preventDefault();
      this.#lost ||= `the GPU refuses the model: ${event.error.message}`;
    });
  }

  /**
   * Used by `load`.
   *
   * @param {Program} program @param {Uint8Array} texts @param {Uint8Array} weights
   * @param {GPUDevice} device @param {LoadOptions} options
   */
  static async make(program, texts, weights, device, options) {
    const model = new Model(program, device, options);
    const progress = options.progress ?? (() => {});
    let done = 0;
    const compiled = Promise.all(
      program.kernels.map(async ({ name, offset, bytes, layout }) => {
        const code = new TextDecoder().decode(texts.subarray(offset, offset + bytes));
        const entries = layout.map(([binding, kind]) => entry(binding, kind, program.precision));
        const groups = device.createBindGroupLayout({ entries });
        const made = await device
          .createComputePipelineAsync({
            layout: device.createPipelineLayout({ bindGroupLayouts: [groups] }),
            compute: { module: device.createShaderModule({ code }), entryPoint: "main" },
          })
          .catch((error) => {
            throw new EdgememError(`the GPU refuses the kernel ${name}: ${text(error)}`, { cause: error });
          });
        progress({ stage: "compile", done: ++done, total: program.kernels.length });
        return { pipeline: made, groups };
      }),
    );
    const constants = await scoped(device, "memory", () => {
      model.#allocate();
      let at = 0;
      return program.constants.map((size) => {
        const buffer = device.createBuffer({ size, usage: STORAGE | COPY_DST });
        device.queue.writeBuffer(buffer, 0, weights, at, size);
        at += size;
        model.weightBytes += buffer.size;
        return buffer;
      });
    });
    const pipelines = await compiled;
    model.kernels = pipelines.length;
    await scoped(device, "bindings", () => {
      for (const pass of program.passes) {
        if (pass.view) continue;
        const { pipeline, groups } = pipelines[pass.kernel];
        const entries = pass.tensors.map(([binding, tensor]) => ({ binding, resource: model.#resource(tensor) }));
        for (const [binding, array] of pass.arrays) {
          const [buffer, offset, size] = program.arrays[array];
          entries.push({ binding, resource: { buffer: constants[buffer], offset, size } });
        }
        model.#passes.push({ pipeline, group: device.createBindGroup({ layout: groups, entries }), pass });
      }
    });
    return model;
  }

  /**
   * Run the model. Runs wait for each other.
   *
   * @param {Record<string, Value>} feeds a value for each input: numbers in the order of its axes.
   * @returns {Promise<Record<string, Output>>}
   */
  run(feeds) {
    const result = this.#queue.then(() => this.#run(feeds));
    this.#queue = result.catch(() => {});
    return result;
  }

  /** Give the memory back. */
  close() {
    this.#lost ||= "the model is closed; load it again";
    this.#device.destroy();
  }

  #allocate() {
    const program = this.#program;
    let pieces = program.pieces;
    this.#places = program.tensors.map(({ piece, offset }) => ({ piece, offset }));
    if (!this.#shared) {
      const source = new Map(program.passes.flatMap((pass) => (pass.view ? [[pass.view[1], pass.view[0]]] : [])));
      pieces = [];
      program.tensors.forEach((tensor, k) => {
        let own = k;
        while (source.has(own)) own = /** @type {number} */ (source.get(own));
        if (own === k) pieces.push(tensor.extent.length ? tensor.extent.filter((n) => n > 0) : [tensor.bytes]);
        this.#places[k] = own === k ? { piece: pieces.length - 1, offset: 0 } : this.#places[own];
      });
      for (const [result, from] of source) {
        let own = from;
        while (source.has(own)) own = /** @type {number} */ (source.get(own));
        this.#places[result] = this.#places[own];
      }
    }
    const format = program.precision === "fp32" ? "rgba32float" : "rgba16float";
    const unit = texelBytes(program);
    if (program.storage === "buffer") {
      const usage = STORAGE | COPY_SRC | COPY_DST;
      const made = pieces.map(([size]) => this.#device.createBuffer({ size: Math.ceil(Math.max(size, 4) / 4) * 4, usage }));
      this.bytes = made.reduce((sum, piece) => sum + piece.size, 0);
      this.#pieces = made;
      return;
    }
    const made = pieces.map((size) => this.#device.createTexture({ size, format, usage: TEXTURE }));
    this.bytes = made.reduce((sum, piece) => sum + piece.width * piece.height * piece.depthOrArrayLayers * unit, 0);
    this.#pieces = made;
  }

  /** @param {number} number @returns {GPUBindingResource} */
  #resource(number) {
    const { piece, offset } = this.#places[number];
    const held = this.#pieces[piece];
    const { bytes, extent } = this.#program.tensors[number];
    if ("size" in held) return { buffer: held, offset, size: bytes };
    if (!extent[2]) return held.createView();
    const baseArrayLayer = this.#layer(number);
    return held.createView({ dimension: "2d-array", baseArrayLayer, arrayLayerCount: extent[2] });
  }

  /** @param {number} number */
  #layer(number) {
    const [width, height, layers] = this.#program.tensors[number].extent;
    return layers ? this.#places[number].offset / (width * height * texelBytes(this.#program)) : 0;
  }

  /** @param {Record<string, Value>} feeds */
  async #run(feeds) {
    if (this.#lost) throw new EdgememError(this.#lost);
    const { inputs, outputs, precision } = this.#program;
    const names = inputs.map(({ name }) => name);
    for (const name of names) if (!(name in feeds)) throw new EdgememError(`there is no value for the input ${name}`);
    for (const name of Object.keys(feeds)) {
      if (!names.includes(name)) throw new EdgememError(`there is no input ${name}; there are ${names.join(", ")}`);
    }
    const given = inputs.map((input) => floats(feeds[input.name], input, precision));
    /** @type {Record<string, Output>} */
    const results = {};
    try {
      const staged = await scoped(this.#device, "a run", () => {
        if (this.#poison) this.#fill();
        inputs.forEach((input, k) => this.#write(this.#number(input.name), given[k]));
        const encoder = this.#device.createCommandEncoder();
        this.#encode(encoder);
        const read = outputs.filter(({ name }) => !names.includes(name)).map(({ name }) => this.#stage(encoder, name));
        this.#device.queue.submit([encoder.finish()]);
        return read;
      });
      for (const { name, buffer, row } of staged) {
        await buffer.mapAsync(READ);
        results[name] = this.#result(name, new Uint8Array(buffer.getMappedRange()), row);
        buffer.destroy();
      }
    } catch (error) {
      if (this.#lost) throw new EdgememError(this.#lost, { cause: error });
      throw error instanceof EdgememError ? error : new EdgememError(`the model does not run: ${text(error)}`, { cause: error });
    }
    if (this.#lost) throw new EdgememError(this.#lost);
    for (const output of outputs.filter(({ name }) => names.includes(name))) {
      results[output.name] = { data: typed(given[names.indexOf(output.name)], output, precision), shape: output.shape };
    }
    return results;
  }

  /** @param {GPUCommandEncoder} encoder */
  #encode(encoder) {
    let open = encoder.beginComputePass();
    for (const { pipeline, group, pass } of this.#passes) {
      if (!this.#shared && pass.over >= 0) {
        // Where nothing is shared, what is written over an input is written over a copy of it.
        open.end();
        const [from, to] = [pass.over, pass.tensors[pass.tensors.length - 1][1]].map((k) => this.#pieces[this.#places[k].piece]);
        if (from !== to && "size" in from && "size" in to) encoder.copyBufferToBuffer(from, 0, to, 0, to.size);
        open = encoder.beginComputePass();
      }
      open.setPipeline(pipeline);
      open.setBindGroup(0, group);
      open.dispatchWorkgroups(...pass.groups);
    }
    open.end();
  }

  /** @param {string} name */
  #number(name) {
    return this.#program.tensors.findIndex((tensor) => tensor.name === name);
  }

  /** Fill all of the memory with NaN, so that reading what was not written shows in the results. */
  #fill() {
    for (const piece of this.#pieces) {
      if ("size" in piece) {
        this.#device.queue.writeBuffer(piece, 0, new Uint8Array(piece.size).fill(0xff));
        continue;
      }
      const { width, height, depthOrArrayLayers: layers } = piece;
      const row = width * texelBytes(this.#program);
      const nothing = new Uint8Array(row * height * layers).fill(0xff);
      this.#device.queue.writeTexture({ texture: piece }, nothing, { bytesPerRow: row, rowsPerImage: height }, [width, height, layers]);
    }
  }

  /** @param {number} number @param {Float32Array} values */
  #write(number, values) {
    const tensor = this.#program.tensors[number];
    const [width, height, layers] = tensor.extent;
    const texels = width ? width * height * (layers || 1) : tensor.bytes / texelBytes(this.#program);
    const Numbers = numberArray(this.#program.precision);
    const packed = new Numbers(texels * SLICE);
    if (this.#poison) packed.fill(NaN);
    each(tensor, (index, at) => (packed[at] = values[index]));
    const { piece, offset } = this.#places[number];
    const held = this.#pieces[piece];
    if ("size" in held) {
      this.#device.queue.writeBuffer(held, offset, packed);
      return;
    }
    const layout = { bytesPerRow: width * texelBytes(this.#program), rowsPerImage: height };
    const to = { texture: held, origin: [0, 0, this.#layer(number)] };
    this.#device.queue.writeTexture(to, packed, layout, [width, height, layers || 1]);
  }

  /** @param {GPUCommandEncoder} encoder @param {string} name */
  #stage(encoder, name) {
    const number = this.#number(name);
    const { bytes, extent } = this.#program.tensors[number];
    const { piece, offset } = this.#places[number];
    const held = this.#pieces[piece];
    const [width, height, layers] = extent;
    const row = width ? Math.ceil((width * texelBytes(this.#program)) / ALIGNMENT) * ALIGNMENT : 0;
    const size = row ? row * height * (layers || 1) : bytes;
    const buffer = this.#device.createBuffer({ size, usage: READ | COPY_DST });
    if ("size" in held) encoder.copyBufferToBuffer(held, offset, buffer, 0, size);
    else {
      const from = { texture: held, origin: [0, 0, this.#layer(number)] };
      encoder.copyTextureToBuffer(from, { buffer, bytesPerRow: row, rowsPerImage: height }, [width, height, layers || 1]);
    }
    return { name, buffer, row };
  }

  /** @param {string} name @param {Uint8Array} data @param {number} row @returns {Output} */
  #result(name, data, row) {
    const tensor = this.#program.tensors[this.#number(name)];
    const output = /** @type {import("./player.d.ts").Border} */ (this.outputs.find((o) => o.name === name));
    const used = row ? tensor.extent[0] * texelBytes(this.#program) : 0;
    let bytes = data;
    if (row !== used) {
      bytes = new Uint8Array((data.length / row) * used);
      for (let k = 0; k * row < data.length; k++) bytes.set(data.subarray(k * row, k * row + used), k * used);
    }
    const Numbers = numberArray(this.#program.precision);
    const numbers = new Numbers(bytes.buffer, bytes.byteOffset, bytes.length / Numbers.BYTES_PER_ELEMENT);
    const values = new Float32Array(product(tensor.dims));
    each(tensor, (index, at) => (values[index] = numbers[at]));
    return { data: typed(values, output, this.#program.precision), shape: output.shape };
  }
}

/** @param {unknown} error */
const text = (error) => (error instanceof Error ? error.message : String(error)).replace(/\s+/g, " ").slice(0, 400);
/** @param {readonly number[]} numbers */
const product = (numbers) => numbers.reduce((a, b) => a * b, 1);
/** @param {Program} program */
const texelBytes = (program) => (program.precision === "fp32" ? 16 : 8);

/** @param {unknown} condition @param {string} message @returns {asserts condition} */
function need(condition, message) {
  if (!condition) throw new EdgememError(`the bundle is damaged: ${message}`);
}

/** @param {"fp32" | "fp16"} precision @returns {Float32ArrayConstructor} */
function numberArray(precision) {
  if (precision === "fp32") return Float32Array;
  const Half = /** @type {any} */ (globalThis).Float16Array;
  if (!Half) throw new EdgememError("this browser has no Float16Array; export a plan in fp32");
  return Half;
}

/** Each element of a tensor: its index in the order of its axes, and where it is among the packed numbers.
 * @param {ProgramTensor} tensor @param {(index: number, at: number) => void} visit */
function each(tensor, visit) {
  const [batch, height, width, channels] = tensor.dims;
  const slices = Math.ceil(channels / SLICE);
  const isImage = tensor.extent.length > 0 && !tensor.row;
  for (let b = 0; b < batch; b++)
    for (let y = 0; y < height; y++)
      for (let x = 0; x < width; x++)
        for (let c = 0; c < channels; c++) {
          const s = Math.floor(c / SLICE);
          const texel = isImage ? ((y * slices + s) * width + x) * batch + b : ((s * height + y) * width + x) * batch + b;
          const index = tensor.channels_first ? ((b * channels + c) * height + y) * width + x : ((b * height + y) * width + x) * channels + c;
          visit(index, texel * SLICE + (c % SLICE));
        }
}

/** @param {Value} value @param {import("./player.d.ts").Border} input @param {"fp32" | "fp16"} precision */
function floats(value, { name, dtype, shape }, precision) {
  if (value.length !== product(shape)) {
    throw new EdgememError(`${name} has the shape [${shape}], ${product(shape)} numbers, not ${value.length}`);
  }
  const found = Float32Array.from(/** @type {ArrayLike<number>} */ (value), Number);
  const most = dtype.startsWith("float") ? (precision === "fp16" ? MOST_HALF : Infinity) : EXACT[precision];
  if (found.some((v) => Math.abs(v) > most && Number.isFinite(v))) {
    throw new EdgememError(`${name} has a number beyond ${most}, where ${precision} ends`);
  }
  return found;
}

/** Floats as the dtype of an output has them. @param {Float32Array} values
 * @param {import("./player.d.ts").Border} output @param {"fp32" | "fp16"} precision @returns {Output["data"]} */
function typed(values, { name, dtype }, precision) {
  if (dtype === "float32") return values;
  const Numbers = /** @type {any} */ (globalThis)[ARRAYS[dtype]] ?? Float32Array;
  if (dtype === "float16") return Numbers.from(values);
  if (dtype === "bool") return Numbers.from(values, (/** @type {number} */ v) => Number(v !== 0));
  if (!values.every((v) => Math.abs(v) <= EXACT[precision])) {
    throw new EdgememError(`${name} is ${dtype}, and has a number that ${precision} does not hold exactly`);
  }
  return Numbers.from(values, dtype.endsWith("int64") ? (/** @type {number} */ v) => BigInt(Math.round(v)) : Math.round);
}

/** The bytes of a file, no more than there should be. @param {URL} root @param {string} name @param {number} most */
async function read(root, name, most) {
  const response = await fetch(new URL(name, root)).catch((error) => {
    throw new EdgememError(`${name} cannot be loaded from ${root}: ${text(error)}`, { cause: error });
  });
  if (!response.ok || !response.body) throw new EdgememError(`${name} cannot be loaded from ${root}: status ${response.status}`);
  const chunks = [];
  let size = 0;
  const reader = response.body.getReader();
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    size += part.value.length;
    if (size > most) await reader.cancel();
    need(size <= most, `${name} has more than ${most} bytes`);
    chunks.push(part.value);
  }
  const data = new Uint8Array(size);
  for (let at = 0, k = 0; k < chunks.length; at += chunks[k++].length) data.set(chunks[k], at);
  return data;
}

/** @param {string} name @param {Uint8Array<ArrayBuffer>} data @param {string} wanted */
async function checkDigest(name, data, wanted) {
  if (!globalThis.crypto?.subtle) throw new EdgememError("digests cannot be checked here; serve the page by https or from localhost");
  const found = new Uint8Array(await crypto.subtle.digest("SHA-256", data));
  const hex = Array.from(found, (byte) => byte.toString(16).padStart(2, "0")).join("");
  need(hex === wanted, `${name} has the digest ${hex.slice(0, 12)}..., not ${String(wanted).slice(0, 12)}...`);
}

/** @param {number} binding @param {string} kind @param {"fp32" | "fp16"} precision @returns {GPUBindGroupLayoutEntry} */
function entry(binding, kind, precision) {
  const visibility = COMPUTE;
  if (kind === "storage" || kind === "read-only-storage") return { binding, visibility, buffer: { type: kind } };
  const viewDimension = kind.endsWith("-array") ? "2d-array" : "2d";
  if (kind.startsWith("texture")) return { binding, visibility, texture: { sampleType: "unfilterable-float", viewDimension } };
  const format = precision === "fp32" ? "rgba32float" : "rgba16float";
  return { binding, visibility, storageTexture: { access: "write-only", format, viewDimension } };
}

/** Errors of the GPU in a function as one EdgememError.
 * @template T @param {GPUDevice} device @param {string} what @param {() => T} act @returns {Promise<T>} */
async function scoped(device, what, act) {
  const filters = /** @type {const} */ (["validation", "out-of-memory", "internal"]);
  filters.forEach((filter) => device.pushErrorScope(filter));
  let result;
  let failure;
  try {
    result = act();
  } catch (error) {
    failure = error;
  }
  const errors = await Promise.all(filters.map(() => device.popErrorScope()));
  const first = failure ?? errors.find((error) => error);
  if (first) throw new EdgememError(`the GPU refuses ${what}: ${text(first.message ?? first)}`, { cause: first });
  return /** @type {T} */ (result);
}

/** @param {Program} program @param {LoadOptions} options */
async function open(program, options) {
  const gpu = globalThis.navigator?.gpu;
  if (!gpu) throw new EdgememError("this browser has no WebGPU here; it needs a newer one, and a page by https or from localhost");
  const adapter = await gpu.requestAdapter({ powerPreference: options.powerPreference });
  if (!adapter) throw new EdgememError("this browser finds no GPU (no WebGPU adapter)");
  const isBuffer = program.storage === "buffer";
  const pieces = options.shared === false ? program.tensors.map((t) => (isBuffer ? [t.bytes] : t.extent)) : program.pieces;
  const sides = isBuffer ? [] : pieces.flatMap((piece) => piece.slice(0, 2));
  const wanted = {
    maxBufferSize: Math.max(...program.constants, ...(isBuffer ? pieces.map((p) => p[0]) : [])),
    maxStorageBufferBindingSize: Math.max(...program.arrays.map((a) => a[2]), ...(isBuffer ? program.tensors.map((t) => t.bytes) : [])),
    maxTextureDimension2D: Math.max(1, ...sides),
    maxTextureArrayLayers: Math.max(1, ...(isBuffer ? [] : pieces.map((piece) => piece[2] ?? 1))),
  };
  /** @type {Record<string, number>} */
  const limits = {};
  for (const [name, value] of Object.entries(wanted)) {
    const has = /** @type {any} */ (adapter.limits)[name];
    if (value > has) throw new EdgememError(`this GPU is too small for the model: its ${name} is ${has}, and ${value} is needed`);
    limits[name] = Math.max(value, 1);
  }
  return adapter.requestDevice({ requiredLimits: raised(limits) }).catch((error) => {
    throw new EdgememError(`the browser opens no GPU device: ${text(error)}`, { cause: error });
  });
}

/** The limits that are above those of every device. @param {Record<string, number>} limits */
function raised(limits) {
  /** @type {Record<string, number>} */
  const everywhere = { maxBufferSize: 2 ** 28, maxStorageBufferBindingSize: 2 ** 27, maxTextureDimension2D: 8192, maxTextureArrayLayers: 256 };
  return Object.fromEntries(Object.entries(limits).filter(([name, value]) => value > everywhere[name]));
}

/** The program, checked. @param {Uint8Array} data @returns {Program} */
function parse(data) {
  let program;
  try {
    program = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(data));
    check(program);
  } catch (error) {
    if (error instanceof EdgememError) throw error;
    throw new EdgememError(`the bundle is damaged: program.json is not what edgemem writes (${text(error)})`, { cause: error });
  }
  return program;
}

/** @param {unknown} value @param {string} what @param {number} [most] @param {number} [least] */
function count(value, what, most = MOST, least = 0) {
  need(Number.isSafeInteger(value), `${what} is not an integer`);
  need(/** @type {number} */ (value) >= least && /** @type {number} */ (value) <= most, `${what} is ${value}, out of ${least} to ${most}`);
}

/** @param {any} program @returns {asserts program is Program} */
function check(program) {
  need(program.format === "edgemem-program" && program.version === 1, "this is no program that this player knows; export it again");
  need(Object.hasOwn(KINDS, program.storage) && Object.hasOwn(EXACT, program.precision), "its storage or precision is unknown");
  for (const name of ["kernels.wgsl", "weights.bin"]) {
    count(program.files[name].bytes, `the size of ${name}`);
    need(/^[0-9a-f]{64}$/.test(program.files[name].sha256), `${name} has no digest`);
  }
  need(typeof program.name === "string", "it has no name");
  for (const key of ["size", "lower_bound", "naive"]) count(program.plan[key], `the plan's ${key}`, Number.MAX_SAFE_INTEGER);
  const rank = { buffer: 1, texture2d: 2, "texture-linear": 2, "texture-array": 3 }[/** @type {Program["storage"]} */ (program.storage)];
  for (const piece of program.pieces) {
    need(piece.length === rank, "a piece of memory has another form");
    piece.forEach((/** @type {unknown} */ n) => count(n, "the size of memory", MOST, rank > 1 ? 1 : 0));
  }
  const planned = program.pieces.reduce((/** @type {number} */ sum, /** @type {number[]} */ piece) => sum + product(piece), 0) * (rank > 1 ? texelBytes(program) : 1);
  const layer = rank === 3 ? program.pieces[0][0] * program.pieces[0][1] * texelBytes(program) : 1;
  need(Math.ceil(program.plan.size / layer) * layer === planned, `the memory has ${planned} bytes, and the plan ${program.plan.size}`);
  program.tensors.forEach((/** @type {any} */ tensor) => checkTensor(tensor, program));
  const names = program.tensors.map((/** @type {any} */ t) => t.name);
  need(new Set(names).size === names.length, "two tensors have one name");
  let end = 0;
  for (const size of program.constants) {
    count(size, "the size of weights", MOST, 1);
    need(size % 4 === 0, "the size of weights is no multiple of 4");
    end += size;
  }
  need(end === program.files["weights.bin"].bytes, "weights.bin has another size than its parts");
  for (const [buffer, offset, size] of program.arrays) {
    count(buffer, "a buffer of weights", program.constants.length - 1);
    count(offset, "an offset of weights");
    count(size, "the size of an array", program.constants[buffer] - offset, 4);
    need(offset % ALIGNMENT === 0 && size % 4 === 0, "an array of weights is not aligned");
  }
  for (const kernel of program.kernels) {
    need(typeof kernel.name === "string", "a kernel has no name");
    count(kernel.offset, "where a kernel is");
    count(kernel.bytes, "the size of a kernel", program.files["kernels.wgsl"].bytes - kernel.offset, 1);
    const allowed = [...KINDS[/** @type {Program["storage"]} */ (program.storage)], "read-only-storage"];
    for (const [binding, kind] of kernel.layout) {
      count(binding, "a binding", 8, 1);
      need(allowed.includes(kind), `a kernel asks for ${kind}`);
      need(kind.startsWith("write") ? binding === OUTPUT : true, "a kernel writes to another binding than the output");
    }
    need(new Set(kernel.layout.map((/** @type {any} */ e) => e[0])).size === kernel.layout.length, "a kernel has a binding twice");
  }
  for (const key of ["inputs", "outputs"]) {
    for (const { name, dtype, shape } of program[key]) {
      const tensor = program.tensors[names.indexOf(name)];
      need(tensor && Object.hasOwn(ARRAYS, dtype), `the plan has no place for ${name}, or it is ${dtype}`);
      shape.forEach((/** @type {unknown} */ n) => count(n, `the shape of ${name}`, MOST, 1));
      need(product(shape) === product(tensor.dims), `${name} has two shapes`);
    }
  }
  checkPasses(program, names);
}

/** @param {any} tensor @param {Program} program */
function checkTensor(tensor, program) {
  const { name, piece, offset, bytes, dims, extent, row } = tensor;
  need(typeof name === "string" && typeof tensor.channels_first === "boolean" && dims.length === 4, "a tensor has another form");
  dims.forEach((/** @type {unknown} */ n) => count(n, `the shape of ${name}`, MOST, 1));
  count(piece, `where ${name} is`, program.pieces.length - 1);
  count(offset, `the offset of ${name}`);
  count(row, `the row of ${name}`);
  const [batch, height, width, channels] = dims;
  const slices = Math.ceil(channels / SLICE);
  const texels = batch * height * width * slices;
  count(texels, `the size of ${name}`, 2 ** 29);
  const unit = texelBytes(program);
  const size = program.pieces[piece];
  const [wide, high, layers] = extent;
  if (program.storage === "buffer") {
    need(!extent.length && !row && bytes === texels * unit && offset % ALIGNMENT === 0, `${name} has another size than its shape`);
    need(offset + bytes <= size[0], `${name} is not within its buffer`);
  } else if (program.storage === "texture-array") {
    need(wide === size[0] && high === size[1] && row === wide && layers === Math.ceil(texels / (wide * high)), `${name} has another size than its shape`);
    const layer = wide * high * unit;
    need(bytes === layers * layer && offset % layer === 0 && offset + bytes <= layer * size[2], `${name} is not within its texture`);
  } else {
    const [w, h] = row ? [Math.min(row, texels), Math.ceil(texels / row)] : [width * batch, height * slices];
    need(wide === w && high === h && layers === 0 && bytes === texels * unit && offset === 0, `${name} has another size than its shape`);
    need(wide <= size[0] && high <= size[1], `${name} is not within its texture`);
  }
}

/** That each pass binds what its kernel asks for, and reads only what is still there. @param {any} program @param {string[]} names */
function checkPasses(program, names) {
  const { tensors, kernels, arrays, storage } = program;
  /** @param {number} a @param {number} b */
  const sharing = (a, b) => {
    const [one, two] = [tensors[a], tensors[b]];
    const isApart = storage !== "texture2d" && storage !== "texture-linear" && (one.offset + one.bytes <= two.offset || two.offset + two.bytes <= one.offset);
    return one.piece === two.piece && !isApart;
  };
  /** @param {number} a @param {number} b */
  const isSame = (a, b) => tensors[a].piece === tensors[b].piece && tensors[a].offset === tensors[b].offset;
  /** @type {Set<number>} */
  const alive = new Set();
  /** @param {number} number @param {string} op */
  const write = (number, op) => {
    for (const other of alive) if (other !== number && sharing(other, number)) alive.delete(other);
    alive.add(number);
  };
  const inputs = program.inputs.map((/** @type {any} */ input) => names.indexOf(input.name));
  inputs.forEach((/** @type {number} */ input) => write(input, ""));
  need(inputs.every((/** @type {number} */ input) => alive.has(input)), "two inputs are at one place");
  for (const pass of program.passes) {
    need(typeof pass.op === "string", "a pass has no name");
    if (pass.view) {
      const [from, to] = pass.view;
      [from, to].forEach((n) => count(n, `a tensor of ${pass.op}`, tensors.length - 1));
      need(alive.has(from), `${pass.op} reads ${names[from]}, which is not there any more`);
      need(isSame(from, to) && tensors[from].bytes === tensors[to].bytes, `${pass.op} moves what it should not`);
      alive.add(to);
      continue;
    }
    count(pass.kernel, `the kernel of ${pass.op}`, kernels.length - 1);
    need(pass.groups.length === 3, `the grid of ${pass.op} has another form`);
    pass.groups.forEach((/** @type {unknown} */ n) => count(n, `the grid of ${pass.op}`, 65535, 1));
    const bound = [...pass.tensors, ...pass.arrays].map((pair) => pair[0]);
    const layout = new Map(kernels[pass.kernel].layout);
    need(bound.length === layout.size && new Set(bound).size === bound.length && bound.every((b) => layout.has(b)), `${pass.op} has other bindings than its kernel`);
    pass.arrays.forEach((/** @type {any} */ [binding, array]) => {
      count(array, `the weights of ${pass.op}`, arrays.length - 1);
      need(layout.get(binding) === "read-only-storage", `${pass.op} would write its weights`);
    });
    pass.tensors.forEach((/** @type {any} */ [binding, tensor]) => {
      count(tensor, `a tensor of ${pass.op}`, tensors.length - 1);
      need(layout.get(binding) !== "read-only-storage", `${pass.op} binds a tensor as weights`);
    });
    const held = pass.tensors.map((/** @type {any} */ pair) => pair[1]);
    need(pass.tensors.at(-1)?.[0] === OUTPUT, `${pass.op} writes nothing`);
    held.forEach((/** @type {number} */ a, /** @type {number} */ k) => {
      const others = storage === "buffer" ? held.slice(k + 1) : k < held.length - 1 ? held.slice(-1) : [];
      need(!others.some((/** @type {number} */ b) => sharing(a, b)), `two tensors of ${pass.op} overlap`);
    });
    for (const tensor of [...held.slice(0, -1), ...pass.reads]) {
      count(tensor, `a tensor of ${pass.op}`, tensors.length - 1);
      need(alive.has(tensor), `${pass.op} reads ${names[tensor]}, which is not there any more`);
      need(held.some((/** @type {number} */ b) => isSame(b, tensor)), `${pass.op} does not bind ${names[tensor]}`);
    }
    count(pass.over + 1, `what ${pass.op} writes over`, tensors.length);
    const output = held[held.length - 1];
    const isOver = pass.over < 0 || (storage === "buffer" && pass.reads.includes(pass.over) && isSame(pass.over, output) && tensors[pass.over].bytes === tensors[output].bytes);
    need(isOver, `${pass.op} writes over another tensor than it says`);
    need(pass.over >= 0 || !pass.reads.some((/** @type {number} */ r) => isSame(r, output)), `${pass.op} writes over what it reads`);
    write(output, pass.op);
  }
  for (const { name } of program.outputs) {
    const number = names.indexOf(name);
    need(alive.has(number) || inputs.includes(number), `the output ${name} is not there at the end`);
  }
}
