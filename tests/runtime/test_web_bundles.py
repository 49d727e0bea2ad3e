"""Models that `edgemem export -f web` writes, in Chromium: bits of the executor, bytes of the plan, clear errors."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

import edgemem
from edgemem import planfile
from edgemem.cli.main import main
from edgemem.errors import UnsupportedError
from edgemem.runtime.webgpu.web_bundle import write_bundle
from edgemem.targets import BUILT_IN
from models.build import build, build_tflite
from models.fetch import FetchError, fetch
from models.net import Net
from models.sequence import encoder
from tests.web_bundles import STATIC, Page, page
from tests.webgpu_adapters import need_adapter
from tests.webgpu_programs import classifier, constant_output, identity, indices, pyramid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.runtime.webgpu.executor import GpuExecutor

__all__ = ["page"]  # the fixture

pytest.importorskip("wgpu")

TARGETS: Final = ("gpu-buffer", "gpu-texture", "gpu-texture-linear", "gpu-texture-array")
# Networks of models/ as .onnx and .tflite; the last are models that others trained.
NETWORKS: Final = (
    "mobilenet_v1",
    "mobilenet_v2",
    "blazeface",
    "unet",
    "resnet18",
    "deeplab_v3",
    "posenet",
    "vit",
)
TFLITE: Final = ("mobilenet_v2_tflite",)
REAL: Final = ("mp_face_detection_short", "mp_face_landmark", "mp_hand_landmark_lite", "mp_selfie_py")


def feeds_for(executor: GpuExecutor, seed: int = 0) -> dict[str, NDArray[Any]]:
    rng = np.random.default_rng(seed)
    return {
        i.name: rng.standard_normal([int(n or 0) for n in i.shape]).astype(np.float32) for i in executor.get_inputs()
    }


def vit() -> onnx.ModelProto:
    """A small vision transformer: 36 patches of 16 x 16 pixels."""
    net = Net("vit")
    patches = net.conv(net.input("image", 3, 96, 96), 64, 16, stride=16, padding="valid", act="none")
    tokens = net.transpose(net.reshape(patches, 64, 36), 0, 2, 1)
    place = net.weight("position", (36, 64), 0.1)
    x = encoder(net, net.op("Add", [tokens], tokens.shape, extra=[place]), 2, 4)
    net.output(net.dense(net.op("ReduceMean", [x], (1, 64), axes=[1], keepdims=0), 10))
    return net.model()


def agrees(page: Page, model: Any, planset: Any = None, tolerance: float = 1e-6) -> None:
    """Check a model in the page: the executor's outputs and memory, the same bits without sharing, no complaint."""
    page.browser.events.clear()
    write_bundle(model, page.folder / "model", planset)
    with edgemem.GpuExecutor(model, planset, adapter=need_adapter("SwiftShader")) as executor:
        feeds = feeds_for(executor)
        names = [o.name for o in executor.get_outputs()]
        wanted = dict(zip(names, executor.run(None, feeds), strict=True))
        report = executor.memory_report
    loaded = page.load("model")
    assert "error" not in loaded, loaded
    assert loaded["bytes"] == report.planned == report.reserved
    assert loaded["kernels"] == report.details["kernels"]
    assert loaded["weightBytes"] == report.details["weights"]
    found, again = page.run(feeds), page.run(feeds)
    assert "error" not in page.load("model", shared=False)
    unshared = page.run(feeds)
    for name, values in wanted.items():
        assert found[name].shape == values.shape
        assert found[name].dtype == values.dtype
        size = max(1.0, float(np.abs(values.astype(np.float64)).max(initial=0)))
        np.testing.assert_allclose(found[name] / size, values / size, rtol=0, atol=tolerance)
        assert found[name].tobytes() == unshared[name].tobytes() == again[name].tobytes()
    assert not page.browser.problems(page.home)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_small_graphs_in_every_storage(page: Page, target: str, precision: str) -> None:
    for make in (classifier, pyramid):
        model = make()
        chosen = BUILT_IN[target + ("-fp16" if precision == "fp16" else "")]
        planset = edgemem.plan(model.graph(), target=chosen)
        agrees(page, model, planset, 1e-6 if precision == "fp32" else 2e-3)


def test_integers_and_an_input_that_is_an_output(page: Page) -> None:
    agrees(page, indices())
    agrees(page, identity())
    with pytest.raises(UnsupportedError, match="'known' is empty or constant, and a page runs only what is computed"):
        write_bundle(constant_output(), page.folder / "constant")


def test_a_network_that_the_command_line_exported(page: Page) -> None:
    path = page.folder / "mobilenet.onnx"
    onnx.save(build("mobilenet_v1", size="small"), path)
    edgemem.save(path, edgemem.plan(path, target="gpu-texture"), path)
    folder = page.folder / "exported"
    done = CliRunner().invoke(main, ["export", str(path), "-f", "web", "-o", str(folder)])
    assert done.exit_code == 0, done.output
    assert f"wrote {folder / 'index.html'}" in done.output
    agrees(page, path)
    digest = hashlib.sha256((folder / "program.json").read_bytes()).hexdigest()
    assert digest in (folder / "index.html").read_text()
    page.browser.open(f"{page.home}exported/index.html")
    text = "document.getElementById({!r}).textContent".format
    assert page.browser.run(text("status")).startswith("ready in ")
    planned = planfile.load(folder / "plan.edgemem").best_shared_objects
    assert planned is not None
    program = json.loads((folder / "program.json").read_text())
    assert planned.size * 16 == program["plan"]["size"]
    page.browser.run("document.getElementById('random').click()")
    page.browser.run(
        "new Promise((done) => { const wait = () => document.getElementById('results').textContent ? done() : "
        "setTimeout(wait, 20); wait(); })"
    )
    assert page.browser.run(text("time")).endswith(" ms")
    assert program["outputs"][0]["name"] in page.browser.run(text("results"))
    assert not page.browser.problems(page.home)
    page.browser.open(f"{page.home}test.html")
    assert CliRunner().invoke(main, ["export", str(path), "-f", "web"]).exit_code == 2


@pytest.mark.full
@pytest.mark.parametrize("name", [*NETWORKS, *TFLITE, *REAL])
def test_networks(page: Page, name: str) -> None:
    """All of them at full size but U-Net, of which a driver in software takes minutes."""
    path = page.folder / f"{name}.tflite"
    if name in NETWORKS:
        path = path.with_suffix(".onnx")
        onnx.save(vit() if name == "vit" else build(name, size="small" if name == "unet" else "full"), path)
    elif name in TFLITE:
        path.write_bytes(build_tflite(name))
    else:
        try:
            shutil.copy(fetch(name), path)
        except FetchError as e:
            pytest.skip(str(e))
    edgemem.save(path, edgemem.plan(path, target="gpu-buffer"), path)
    agrees(page, path)


@pytest.mark.full
@pytest.mark.parametrize("target", ["gpu-buffer-fp16", "gpu-texture-fp16"])
def test_a_network_in_halves(page: Page, target: str) -> None:
    path = page.folder / "halves.onnx"
    onnx.save(build("mobilenet_v1", size="small"), path)
    edgemem.save(path, edgemem.plan(path, target=target), path)
    agrees(page, path)


def test_the_weights_of_a_file_in_halves_take_half(tmp_path: Path) -> None:
    """Weights that float16 holds exactly are kept so, which changes no bit of a plan in fp32."""
    model = build("blazeface", size="small")
    wide, narrow = tmp_path / "wide.onnx", tmp_path / "narrow.onnx"
    onnx.save(model, wide)
    for tensor in model.graph.initializer:
        values = onnx.numpy_helper.to_array(tensor)
        if values.dtype == np.float32:
            rounded = values.astype(np.float16).astype(np.float32)
            rounded[np.abs(rounded) < np.finfo(np.float16).smallest_normal] = 0
            tensor.CopyFrom(onnx.numpy_helper.from_array(rounded, tensor.name))
    onnx.save(model, narrow)
    sizes = []
    for path in (wide, narrow):
        write_bundle(path, tmp_path / path.stem)
        program = json.loads((tmp_path / path.stem / "program.json").read_text())
        sizes.append(sum(size for _, _, size in program["arrays"]))
    assert sizes[1] < 0.6 * sizes[0]
    with edgemem.GpuExecutor(narrow, adapter=need_adapter()) as executor:
        feeds = feeds_for(executor)
        halves = executor.run(None, feeds)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("edgemem.runtime.webgpu.gpu_program.stored_weights", lambda dispatch, _: dispatch.weights)
        with edgemem.GpuExecutor(narrow, adapter=need_adapter()) as executor:
            singles = executor.run(None, feeds)
    assert [v.tobytes() for v in halves] == [v.tobytes() for v in singles]


def test_the_page_says_what_is_missing_or_wrong(page: Page) -> None:
    write_bundle(pyramid(), page.folder / "small")
    feeds = {"x": np.ones((1, 3, 32, 32), np.float32)}
    run = page.browser.run
    assert "program.json cannot be loaded from" in page.load("nowhere")["error"]
    assert "program.json has the digest" in page.load("small", sha256="0" * 64)["error"]
    run("void Object.defineProperty(navigator, 'gpu', { value: undefined, configurable: true })")
    assert page.load("small")["error"].startswith("there is no WebGPU")
    nothing = "{ requestAdapter: async () => null }"
    run(f"void Object.defineProperty(navigator, 'gpu', {{ value: {nothing}, configurable: true }})")
    assert page.load("small")["error"] == "this browser finds no GPU adapter"
    run("delete navigator.gpu")
    run("void Object.defineProperty(GPUAdapter.prototype, 'limits', { get: () => ({ maxBufferSize: 64 }) })")
    assert "this GPU is too small: its maxBufferSize is 64, not " in page.load("small")["error"]
    page.browser.open(f"{page.home}test.html")
    assert "error" not in page.load("small")
    with pytest.raises(RuntimeError, match="the inputs are x, not y"):
        page.run({"y": feeds["x"]})
    with pytest.raises(RuntimeError, match=r"x has the shape \[1,3,32,32\], not 3 numbers"):
        page.run({"x": np.ones(3, np.float32)})
    assert page.run(feeds)
    run("window.device.destroy()")
    with pytest.raises(RuntimeError, match=r"the GPU device is lost: .*; load the model again"):
        page.run(feeds)
    assert "error" not in page.load("small")
    run("window.model.close()")
    with pytest.raises(RuntimeError, match="the model is closed; load it again"):
        page.run(feeds)


def test_the_player_runs_in_a_worker(page: Page) -> None:
    write_bundle(pyramid(), page.folder / "worked")
    (page.folder / "worker.js").write_text("""
import { load } from "/player.js";
const steps = [];
const model = await load("worked/", { progress: (step) => steps.push(step) });
const found = await model.run({ x: new Float32Array(3 * 32 * 32).fill(0.5) });
const [[name, { data, shape }]] = Object.entries(found);
postMessage({ name, data: Array.from(data), shape, bytes: model.bytes, steps, kernels: model.kernels });
""")
    script = """new Promise((done, fail) => {
      const worker = new Worker("/worker.js", { type: "module" });
      worker.onmessage = (event) => done(event.data);
      worker.onerror = (event) => fail(new Error(event.message));
    })"""
    found = page.browser.run(script)
    with edgemem.GpuExecutor(pyramid(), adapter=need_adapter("SwiftShader")) as executor:
        (wanted,) = executor.run(None, {"x": np.full((1, 3, 32, 32), 0.5, np.float32)})
        assert found["bytes"] == executor.memory_report.planned
    np.testing.assert_array_equal(np.reshape(np.array(found["data"], np.float32), found["shape"]), wanted)
    compiled = [step["done"] for step in found["steps"] if step["stage"] == "compile"]
    assert compiled == list(range(1, found["kernels"] + 1))


def test_the_player_is_one_small_file() -> None:
    text = (STATIC / "player.js").read_text()
    assert len(text.encode()) <= 25_000
    assert "import(" not in text.replace("import * as", "")
    assert not any(word in text for word in ("eval(", "new Function", "innerHTML"))


def test_types_of_the_player_and_its_page(tmp_path: Path) -> None:
    """The sources are right, a program in TypeScript can use what player.d.ts declares, and player.js is that."""
    tsc = shutil.which("tsc")
    if tsc is None:
        pytest.skip("no TypeScript here (npm install -g typescript)")
    shutil.copytree(STATIC, tmp_path, dirs_exist_ok=True)
    code = (tmp_path / "player.js").read_text()
    (tmp_path / "code.js").write_text(code.replace("// @ts-check", "// @ts-nocheck"))
    shutil.copy(Path(__file__).with_name("player_types.ts"), tmp_path)
    newest = {"target": "esnext", "module": "esnext", "lib": ["esnext", "dom", "dom.iterable"], "types": []}
    shared = {**newest, "moduleResolution": "bundler", "allowJs": True, "noEmit": True, "strict": True}
    exact = {"noUncheckedIndexedAccess": True, "exactOptionalPropertyTypes": True}
    oldest = {**exact, "target": "es2022", "lib": ["es2022", "dom", "dom.iterable"]}
    sources = ["player.js", "player.d.ts", "demo.js"]
    user = ["player_types.ts"]
    for files, more in ((sources, {"noImplicitAny": False}), (user, exact), (user, oldest)):
        config = {"compilerOptions": shared | more, "files": files}
        (tmp_path / "tsconfig.json").write_text(json.dumps(config))
        done = subprocess.run([tsc, "-p", str(tmp_path)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout
