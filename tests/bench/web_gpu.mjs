// Runs a bundle with its own player in Node, whose WebGPU is Dawn's (npm's webgpu). What web_gpu.py prints comes from it.
//   node web_gpu.mjs WEBGPU_PACKAGE BUNDLE RUNS < feeds.json
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join, resolve } from "node:path";
import { text } from "node:stream/consumers";
import { pathToFileURL } from "node:url";

const [place, bundle, runs] = process.argv.slice(2);
const { create, globals } = await import(pathToFileURL(join(resolve(place), "index.js")).href);
Object.assign(globalThis, globals);
Object.defineProperty(globalThis, "navigator", { value: { gpu: create(["backend=vulkan"]) }, configurable: true });

// dawn.node knows no Float16Array.
for (const name of ["writeBuffer", "writeTexture"]) {
  const write = GPUQueue.prototype[name];
  const bytes = (data) => (data instanceof Float16Array ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength) : data);
  GPUQueue.prototype[name] = function (...given) { return write.apply(this, given.map(bytes)); };
}

const server = createServer(async (request, response) => {
  const found = await readFile(join(bundle, request.url.replace(/^.*\//, ""))).catch(() => null);
  response.writeHead(found ? 200 : 404).end(found);
});
await new Promise((done) => server.listen(0, "127.0.0.1", done));

const { load } = await import(pathToFileURL(resolve(bundle, "player.js")).href);
const given = JSON.parse(await text(process.stdin));
const feeds = {};
for (const [name, data] of Object.entries(given)) feeds[name] = new Float32Array(Uint8Array.from(Buffer.from(data, "base64")).buffer);
const base64 = ({ data }) => Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString("base64");
const outputs = [];
const said = {};
for (const shared of [true, false]) {
  const began = performance.now();
  const model = await load(`http://127.0.0.1:${server.address().port}/`, { shared });
  let found = await model.run(feeds);
  const first = performance.now() - began;
  const times = [];
  for (let k = 0; k < Number(runs); k++) {
    const start = performance.now();
    found = await model.run(feeds);
    times.push(performance.now() - start);
  }
  outputs.push(Object.fromEntries(Object.entries(found).map(([name, value]) => [name, base64(value)])));
  if (shared) Object.assign(said, { first, times, bytes: model.bytes, planned: model.plan.size, weights: model.weightBytes });
  model.close();
}
const adapter = await navigator.gpu.requestAdapter();
const { vendor, architecture, device, description } = adapter.info;
Object.assign(said, { adapter: `${vendor} ${architecture} ${device} ${description}`, halves: adapter.features.has("shader-f16") });
await new Promise((done) => process.stdout.write(JSON.stringify({ ...said, outputs }), done));
process.exit(0); // Dawn's threads go on
