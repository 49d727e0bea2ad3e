"""Builds edgemem without a compiler, installs it in a fresh environment, and plans and runs a model there.

    python tests/wheel_without_compiler.py [--offline]

The wheel is pure Python (`-C wheel.cmake=false`). `--offline` takes everything but edgemem from the environment of
this interpreter instead of the package index, and builds without isolation.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import sysconfig
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

CHECK = """
import warnings
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    import edgemem, numpy as np
    planset = edgemem.plan("model.onnx")
from edgemem import native
from edgemem.runtime.onnxruntime.bound_nodes import BoundNodes
from edgemem.runtime.onnxruntime.split_model import split_model
from edgemem.runtime.webgpu import kernel_texts
assert len(kernel_texts.kernels()) > 9
assert not native.COMPILED
assert "site-packages" in edgemem.__file__, edgemem.__file__
assert [str(w.message) for w in told if "no compiled kernels" in str(w.message)], told
assert {p.strategy for p in planset.offsets} >= {"greedy_by_size", "greedy_by_breadth", "greedy_in_order"}
assert not edgemem.verify(planset, "model.onnx")
edgemem.save("model.onnx", planset, "model.planned.onnx")
import onnxruntime
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
# The plan is of the graph in the file, which the session below runs as it is: a fused graph rounds differently.
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
plain = onnxruntime.InferenceSession("model.onnx", options)
(only,) = plain.get_inputs()
feed = {only.name: np.random.default_rng(0).standard_normal(only.shape).astype(np.float32)}
expected = plain.run(None, feed)
nodes = BoundNodes(split_model("model.planned.onnx"), poison=255)
found = list(nodes.run(feed).values())
assert all((a == b).all() for a, b in zip(found, expected))
best = planset.best_offsets
print(f"without a compiler: {best.strategy} {best.size} bytes, bound {planset.bounds.offsets}; {nodes.report}")
"""


def main() -> int:
    """0 when all of it works."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--offline", action="store_true", help="take the dependencies from this environment")
    offline = parser.parse_args().offline
    with tempfile.TemporaryDirectory(prefix="edgemem-") as folder:
        work = Path(folder)
        alone = ["--no-build-isolation"] if offline else []
        # A compiler that fails: the build must not call any.
        env = {**os.environ, "CC": "/bin/false", "CXX": "/bin/false", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        pip = [sys.executable, "-m", "pip"]
        build = [
            *pip,
            "wheel",
            "-q",
            *alone,
            "--no-deps",
            "--config-settings",
            "wheel.cmake=false",
            "-w",
            folder,
            str(ROOT),
        ]
        subprocess.run(build, check=True, env=env)
        (wheel,) = work.glob("*.whl")
        assert wheel.name.endswith("-none-any.whl"), wheel.name
        print(wheel.name)
        venv.create(work / "venv", with_pip=not offline)
        python = work / "venv" / "bin" / "python"
        if offline:
            site = next((work / "venv" / "lib").glob("python*/site-packages"))
            paths = [p for p in sys.path if p.endswith("site-packages")] or [sysconfig.get_path("purelib")]
            (site / "zz_base.pth").write_text("\n".join(paths), encoding="utf-8")
            subprocess.run([*pip, "install", "-q", "--no-deps", "--target", str(site), str(wheel)], check=True, env=env)
        else:
            subprocess.run(
                [python, "-m", "pip", "install", "-q", f"edgemem-planner[cpu] @ {wheel.as_uri()}"], check=True, env=env
            )
        model = work / "model.onnx"
        command = [
            sys.executable,
            str(ROOT / "models" / "build.py"),
            "mobilenet_v2",
            "--size",
            "small",
            "-o",
            str(model),
        ]
        subprocess.run(command, check=True)
        subprocess.run([python, "-c", CHECK], check=True, cwd=work)
    return 0


if __name__ == "__main__":
    sys.exit(main())
