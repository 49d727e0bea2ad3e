// @ts-check
/**
 * The page of a bundle: a picture, the camera or random numbers in, the largest outputs out, and the memory of the plan.
 *
 * @import { Model, Output, Border } from "./player.d.ts"
 */
import { load } from "./player.js";

/** @param {string} id @returns {any} */
const at = (id) => document.getElementById(id);
const mib = (bytes) => `${(bytes / 2 ** 20).toFixed(3)} MiB`;
const root = document.documentElement.dataset;
/** @type {Model | undefined} */
let model;
let isBusy = false;
let labels = [];

function rows(table, lines) {
  table.replaceChildren(
    ...lines.map((cells) => {
      const row = document.createElement("tr");
      row.append(...cells.map((text) => Object.assign(document.createElement("td"), { textContent: text })));
      return row;
    }),
  );
}

async function open() {
  model?.close();
  model = undefined;
  const began = performance.now();
  const progress = ({ stage, done, total }) => (at("status").textContent = `${stage} ${done} of ${total}`);
  try {
    model = await load("./", { sha256: root.sha256, shared: at("shared").checked, progress });
  } catch (error) {
    at("status").textContent = /** @type {Error} */ (error).message;
    return;
  }
  const { bytes, weightBytes, plan, kernels, program } = model;
  at("status").textContent = `ready in ${Math.round(performance.now() - began)} ms: ${kernels} kernels, ${program.storage}, ${program.precision}`;
  rows(at("memory"), [
    ["allocated for tensors", mib(bytes)],
    ["the plan", mib(plan.size)],
    ["lower bound", mib(plan.lower_bound)],
    ["without sharing", mib(plan.naive)],
    ["weights", mib(weightBytes)],
  ]);
  draw();
}

/** Each tensor from the pass that writes it to the last that reads it, where the plan puts it. */
function draw() {
  const { tensors, passes, pieces, inputs, outputs, precision } = /** @type {Model} */ (model).program;
  const unit = pieces[0].length === 1 ? 1 : precision === "fp32" ? 16 : 8;
  const sizes = pieces.map((piece) => piece.reduce((a, b) => a * b, unit));
  const starts = sizes.map((_, k) => sizes.slice(0, k).reduce((a, b) => a + b, 0));
  const total = sizes.reduce((a, b) => a + b, 0);
  const spans = new Map(inputs.map(({ tensor }) => [tensor, [0, 0]]));
  passes.forEach(({ view, reads, tensors: bound }, k) => {
    for (const tensor of view ? [view[0]] : reads) /** @type {number[]} */ (spans.get(tensor))[1] = k + 1;
    const made = view ? view[1] : bound[bound.length - 1][1];
    spans.set(made, [spans.get(made)?.[0] ?? k, k + 1]);
  });
  for (const { tensor } of outputs) /** @type {number[]} */ (spans.get(tensor))[1] = passes.length;
  const canvas = at("map");
  const pen = canvas.getContext("2d");
  [canvas.width, canvas.height] = [canvas.clientWidth * devicePixelRatio, 240 * devicePixelRatio];
  for (const [tensor, [first, last]] of spans) {
    const { piece, offset, bytes } = tensors[tensor];
    const [x, right] = [first, Math.max(last, first + 1)].map((k) => (k / passes.length) * canvas.width);
    const [low, high] = [0, bytes].map((more) => canvas.height * (1 - (starts[piece] + offset + more) / total));
    pen.fillStyle = `hsl(${(tensor * 137) % 360} 60% 55%)`;
    pen.fillRect(x, high, right - x, low - high);
  }
}

/** Height, width and whether channels come first, of an input that is a picture. @param {Border} input */
function pictureOf({ shape, dtype }) {
  if (shape.length !== 4 || shape[0] !== 1 || dtype !== "float32") return null;
  if (shape[3] === 3 || shape[3] === 1) return { height: shape[1], width: shape[2], channels: shape[3], isFirst: false };
  if (shape[1] === 3 || shape[1] === 1) return { height: shape[2], width: shape[3], channels: shape[1], isFirst: true };
  return null;
}

/** The numbers of a picture, cut to the middle. @param {any} image @param {number} wide @param {number} high */
function numbers(image, wide, high) {
  const { height, width, channels, isFirst } = /** @type {any} */ (pictureOf(/** @type {Model} */ (model).inputs[0]));
  const canvas = at("picture");
  [canvas.width, canvas.height, canvas.hidden] = [width, height, false];
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  const scale = Math.max(width / wide, height / high);
  pen.drawImage(image, (width - wide * scale) / 2, (height - high * scale) / 2, wide * scale, high * scale);
  const { data } = pen.getImageData(0, 0, width, height);
  const [factor, shift] = at("range").value.split(",").map(Number);
  const result = new Float32Array(height * width * channels);
  for (let pixel = 0; pixel < height * width; pixel++)
    for (let c = 0; c < channels; c++) {
      result[isFirst ? c * height * width + pixel : pixel * channels + c] = (data[pixel * 4 + c] / 255) * factor + shift;
    }
  return result;
}

/** @param {Record<string, any>} feeds */
async function run(feeds) {
  if (!model || isBusy) return;
  isBusy = true;
  try {
    const began = performance.now();
    const results = await model.run(feeds);
    at("time").textContent = `${(performance.now() - began).toFixed(1)} ms`;
    rows(at("results"), Object.entries(results).flatMap(described));
  } catch (error) {
    at("time").textContent = /** @type {Error} */ (error).message;
  }
  isBusy = false;
}

/** The largest five numbers of an output, by label where there is one. @param {[string, Output]} output */
function described([name, { data, shape }]) {
  const values = Array.from(/** @type {ArrayLike<number>} */ (data), Number);
  const best = values.map((_, k) => k).sort((a, b) => values[b] - values[a]).slice(0, 5);
  return [[`${name} [${shape}]`, ""], ...best.map((k) => [labels[k] ?? `${k}`, values[k].toPrecision(5)])];
}

async function camera() {
  const video = at("video");
  try {
    video.srcObject = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
  } catch (error) {
    at("time").textContent = `no camera: ${/** @type {Error} */ (error).message}`;
    return;
  }
  await video.play();
  for (;;) {
    if (model) await run({ [model.inputs[0].name]: numbers(video, video.videoWidth, video.videoHeight) });
    await new Promise(requestAnimationFrame);
  }
}

at("shared").addEventListener("change", open);
at("camera").addEventListener("click", camera);
at("file").addEventListener("change", async () => {
  const [file] = at("file").files;
  if (!file || !model) return;
  const image = await createImageBitmap(file);
  await run({ [model.inputs[0].name]: numbers(image, image.width, image.height) });
});
at("random").addEventListener("click", () => {
  const count = (shape) => shape.reduce((a, b) => a * b, 1);
  const random = ({ dtype, shape }) => Array.from({ length: count(shape) }, () => (dtype.startsWith("float") ? Math.random() : 0));
  return run(Object.fromEntries((model?.inputs ?? []).map((input) => [input.name, random(input)])));
});
await open();
if (root.labels) labels = (await (await fetch(root.labels)).text()).split("\n");
at("source").hidden = !model || model.inputs.length !== 1 || !pictureOf(model.inputs[0]);
root.ready = "true";
