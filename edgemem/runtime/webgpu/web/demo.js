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
let labels = [];
/** What is shown: a picture, or numbers. @type {(() => Record<string, any>) | undefined} */
let given;
let work = Promise.resolve();
let cameras = 0; // how often the camera was begun or ended

/** One after another: what needs the model, or replaces it. @param {() => Promise<void>} act */
const queue = (act) => (work = work.then(() => act()).catch((error) => say(error.message)));
const say = (text) => (at("time").textContent = text);

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
  at("controls").disabled = true;
  const began = performance.now();
  const progress = ({ stage, done, total }) => (at("status").textContent = `${stage} ${done} of ${total}`);
  try {
    model = await load("./", { sha256: root.sha256, shared: at("shared").checked, progress });
  } catch (error) {
    at("status").textContent = /** @type {Error} */ (error).message;
    return;
  }
  at("controls").disabled = false;
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
  const [input] = /** @type {Model} */ (model).inputs;
  const { height, width, channels, isFirst } = /** @type {any} */ (pictureOf(input));
  const canvas = at("picture");
  [canvas.width, canvas.height, canvas.hidden] = [width, height, false];
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  const scale = Math.max(width / wide, height / high);
  pen.drawImage(image, (width - wide * scale) / 2, (height - high * scale) / 2, wide * scale, high * scale);
  const { data } = pen.getImageData(0, 0, width, height);
  const range = at("range").value.split(",").map(Number); // a factor and a shift, for each channel or for all
  const result = new Float32Array(height * width * channels);
  for (let pixel = 0; pixel < height * width; pixel++)
    for (let c = 0; c < channels; c++) {
      const [factor, shift] = range.slice((c * 2) % range.length);
      const [red, green, blue] = data.subarray(pixel * 4);
      const value = channels === 1 ? 0.299 * red + 0.587 * green + 0.114 * blue : data[pixel * 4 + c];
      result[isFirst ? c * height * width + pixel : pixel * channels + c] = (value / 255) * factor + shift;
    }
  return { [input.name]: result };
}

/** Run what is given; once more if the device was lost, as it is of pages that a phone has put aside. */
async function run(isAgain = false) {
  if (!model || !given) return;
  try {
    const feeds = given();
    const began = performance.now();
    const results = await model.run(feeds);
    say(`${(performance.now() - began).toFixed(1)} ms`);
    rows(at("results"), Object.entries(results).flatMap(described));
  } catch (error) {
    const { message } = /** @type {Error} */ (error);
    if (isAgain || !message.includes("device is lost")) throw error;
    await open();
    if (model) await run(true);
  }
}

/** Show numbers or a picture instead of what is shown. @param {() => Record<string, any>} feeds */
function show(feeds) {
  stop();
  say("running");
  queue(() => ((given = feeds), run()));
}

/** The largest five numbers of an output, by label where there is one. @param {[string, Output]} output */
function described([name, { data, shape }]) {
  /** @type {[number, number][]} */
  const best = [];
  for (let k = 0; k < data.length; k++) {
    const number = Number(data[k]);
    if (best.length === 5 && !(number > best[4][0])) continue;
    const place = best.findIndex(([other]) => number > other);
    best.splice(place < 0 ? best.length : place, 0, [number, k]);
    if (best.length > 5) best.pop();
  }
  return [[`${name} [${shape}]`, ""], ...best.map(([number, k]) => [labels[k] ?? `${k}`, number.toPrecision(5)])];
}

function stop() {
  cameras++;
  at("camera").textContent = "camera";
  for (const track of at("video").srcObject?.getTracks() ?? []) track.stop();
  at("video").srcObject = null;
}

async function camera() {
  const isOn = at("video").srcObject;
  stop();
  if (isOn) return;
  const [video, own] = [at("video"), cameras];
  if (!navigator.mediaDevices) return say("no camera: the page has to come by https");
  try {
    const stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
    if (own !== cameras) return stream.getTracks().forEach((track) => track.stop());
    video.srcObject = stream;
    at("camera").textContent = "stop the camera";
    await video.play();
  } catch (error) {
    return say(`no camera: ${/** @type {Error} */ (error).message}; give a picture instead`);
  }
  given = () => numbers(video, video.videoWidth, video.videoHeight);
  while (own === cameras) {
    await queue(() => (own === cameras ? run() : Promise.resolve()));
    await new Promise(requestAnimationFrame);
  }
}

at("shared").addEventListener("change", () => {
  queue(open);
  queue(run);
});
at("range").addEventListener("change", () => queue(run));
at("camera").addEventListener("click", camera);
at("file").addEventListener("change", async () => {
  const [file] = at("file").files;
  if (!file) return;
  try {
    const image = await createImageBitmap(file);
    show(() => numbers(image, image.width, image.height));
  } catch {
    say(`${file.name} is no picture that this browser reads`);
  }
});
at("file").addEventListener("click", () => (at("file").value = "")); // the same file once more is a change, too
at("random").addEventListener("click", () => {
  const count = (shape) => shape.reduce((a, b) => a * b, 1);
  const random = ({ dtype, shape }) => Array.from({ length: count(shape) }, () => (dtype.startsWith("float") ? Math.random() : 0));
  const feeds = Object.fromEntries((model?.inputs ?? []).map((input) => [input.name, random(input)]));
  at("picture").hidden = true;
  show(() => feeds);
});
await queue(open);
at("source").hidden = !model || model.inputs.length !== 1 || !pictureOf(model.inputs[0]);
if (root.labels) {
  const found = await fetch(root.labels);
  if (found.ok) labels = (await found.text()).split("\n");
}
root.ready = "true";
