"""Models in a browser: the player of `edgemem export -f web` beside onnxruntime-web on WebGPU, in the same Chromium.

    npm install onnxruntime-web
    python tests/bench/web.py --ort node_modules/onnxruntime-web/dist

Memory is the largest sum of GPU buffers and textures that were there at one time, counted by wrapping the device:
weights, tensors, and what either side needs beside them. Times are those of a driver in software: from loading the
player or ONNX Runtime to the first result, and the median of the runs after it.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

import onnx

import edgemem
from edgemem.runtime.webgpu.web_bundle import write_bundle
from models.build import build
from tests.chromium import Browser, need_chromium
from tests.web_bundles import served

MODELS: Final = ("mobilenet_v1", "mobilenet_v2", "blazeface", "resnet18")

_PAGE: Final = """<!doctype html><link rel="icon" href="data:,"><script type="module">
window.live = window.most = 0;
const held = new Map();
const count = (object, bytes) => {
  held.set(object, bytes);
  live += bytes;
  most = Math.max(most, live);
  const destroy = object.destroy;
  object.destroy = function () { live -= held.get(object) ?? 0; held.delete(object); return destroy.call(this); };
  return object;
};
const { createBuffer, createTexture } = GPUDevice.prototype;
GPUDevice.prototype.createBuffer = function (given) { return count(createBuffer.call(this, given), given.size); };
GPUDevice.prototype.createTexture = function (given) {
  const made = createTexture.call(this, given);
  return count(made, made.width * made.height * made.depthOrArrayLayers * (given.format === "rgba32float" ? 16 : 8));
};
const random = (shape) => Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, Math.random);
const timed = async (create, run, runs) => {
  const began = performance.now();
  const session = await create();
  await run(session);
  const first = performance.now() - began;
  const times = [];
  for (let k = 0; k < runs; k++) {
    const start = performance.now();
    await run(session);
    times.push(performance.now() - start);
  }
  return { first, times, most };
};
window.edgemem = async (folder, runs) => {
  const { load } = await import("/player.js");
  let feeds;
  return timed(() => load(folder), (model) => {
    feeds ??= Object.fromEntries(model.inputs.map(({ name, shape }) => [name, random(shape)]));
    return model.run(feeds);
  }, runs);
};
window.onnxruntime = async (file, runs, inputs) => {
  const ort = await import("/ort/ort.webgpu.min.mjs");
  ort.env.wasm.wasmPaths = "/ort/";
  ort.env.wasm.numThreads = 1;
  ort.env.logLevel = "error";
  const tensor = ([name, shape]) => [name, new ort.Tensor("float32", random(shape), shape)];
  const feeds = Object.fromEntries(inputs.map(tensor));
  const options = { executionProviders: ["webgpu"] };
  return timed(() => ort.InferenceSession.create(file, options), (session) => session.run(feeds), runs);
};
document.documentElement.dataset.ready = "true";
</script>"""


def measured(home: str, folder: Path, call: str) -> dict[str, Any]:
    """What a call gives in a browser of its own."""
    profile = Path(tempfile.mkdtemp(dir=folder))
    with Browser(need_chromium(), profile, webgpu=True) as browser:
        browser.open(f"{home}bench.html")
        return dict(browser.run(call))


def main() -> None:
    """Print a table in Markdown."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--ort", type=Path, required=True, help="the folder `dist` of npm's onnxruntime-web")
    options.add_argument("--runs", type=int, default=5)
    options.add_argument("models", nargs="*", default=MODELS)
    asked = options.parse_args()
    print("| model | side | GPU memory, MiB | first result, s | run, ms |")
    print("|---|---|---:|---:|---:|")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        shutil.copytree(asked.ort, folder / "ort", ignore=shutil.ignore_patterns("*.map"))
        (folder / "bench.html").write_text(_PAGE)
        with served(folder) as home:
            for model in asked.models:
                path = folder / f"{model}.onnx"
                onnx.save(build(model), path)
                inputs = [
                    [i.name, [d.dim_value for d in i.type.tensor_type.shape.dim]] for i in onnx.load(path).graph.input
                ]
                edgemem.save(path, edgemem.plan(path, target="gpu-buffer"), folder / f"{model}.planned.onnx")
                write_bundle(folder / f"{model}.planned.onnx", folder / model)
                shutil.copy(folder / model / "player.js", folder)
                calls = {
                    "edgemem": f"edgemem('{model}', {asked.runs})",
                    "onnxruntime-web": f"onnxruntime('{model}.onnx', {asked.runs}, {inputs})",
                }
                for side, call in calls.items():
                    found = measured(home, folder, call)
                    most, first = found["most"] / 2**20, found["first"] / 1e3
                    print(
                        f"| {model} | {side} | {most:.1f} | {first:.2f} | {median(found['times']):.0f} |",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
