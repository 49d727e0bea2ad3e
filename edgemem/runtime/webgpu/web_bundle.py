"""A planned model for browsers: a folder with its static program, weights, plan, page and player."""

from __future__ import annotations

import hashlib
import html
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from edgemem import planfile
from edgemem.errors import UnsupportedError
from edgemem.runtime.webgpu.gpu_model import read_gpu_model
from edgemem.runtime.webgpu.gpu_program import build_program
from edgemem.runtime.webgpu.graph_lowering import lower_graph, needed_tensors
from edgemem.runtime.webgpu.kernel_texts import prelude
from edgemem.runtime.webgpu.places import check_profile, chosen_plan, planned_places
from edgemem.runtime.webgpu.profile import portable_profile
from edgemem.system.files import atomic_write

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from edgemem.formats import Computable
    from edgemem.model.graph import Tensor
    from edgemem.plans import PlanSet
    from edgemem.runtime.webgpu.constants import Constants
    from edgemem.runtime.webgpu.gpu_model import GpuModel
    from edgemem.runtime.webgpu.gpu_program import GpuProgram
    from edgemem.runtime.webgpu.places import Place

__all__ = ["write_bundle"]

_STATIC: Final = Path(__file__).parent / "web"
_VERSION: Final = 1


def write_bundle(
    model: str | Path | bytes | Computable, folder: Path, planset: PlanSet | None = None
) -> tuple[Path, ...]:
    """Write the files that a browser needs to run a model inside its plan, and return their paths.

    `program.json` has the memory, the tensors in it, the kernels and the passes that run them; `kernels.wgsl` their
    texts, `weights.bin` what they read, and `plan.edgemem` the plan. The page names the digest of `program.json`,
    which names those of the others.

    Args:
        model: a file, its content, or what `edgemem.load` gave.
        folder: is made if it is missing; files of these names are replaced.
        planset: a plan to take instead of the file's own; without either, one is made for `gpu-buffer`.

    Raises:
        UnsupportedError: an operator has no kernel, or an input or output is empty or constant.
    Other errors are those of `edgemem.GpuExecutor`, without those of devices.
    """
    prepared = read_gpu_model(model, planset)
    lowered, context = lower_graph(prepared)
    layout = planned_places(prepared.proved, prepared.graph, needed_tensors(prepared.graph, lowered, context))
    profile = replace(portable_profile(), name="web")  # nobody chooses another for a page
    check_profile(layout, prepared.graph, profile)
    program = build_program(layout, prepared.graph, prepared.target, lowered, context, profile)
    _check_borders(prepared)
    folder.mkdir(parents=True, exist_ok=True)
    texts = [kernel.text.encode() for kernel in program.kernels]
    files = {
        name: _write(folder / name, chunks)
        for name, chunks in (
            ("kernels.wgsl", texts),
            ("weights.bin", _weights(program.constants)),
            ("plan.edgemem", [planfile.encode(prepared.proved.planset)]),
        )
    }
    document = _document(prepared, program) | {"files": files}
    data = json.dumps(document, separators=(",", ":")).encode()
    _write(folder / "program.json", [data])
    page = (_STATIC / "index.html").read_text(encoding="utf-8")
    page = page.replace("@@NAME@@", html.escape(prepared.name))
    page = page.replace("@@SHA256@@", hashlib.sha256(data).hexdigest())
    _write(folder / "index.html", [page.encode()])
    static = ("player.js", "player.d.ts", "demo.js")
    for name in static:
        _write(folder / name, [(_STATIC / name).read_bytes()])
    names = ("index.html", *static, "program.json", *files)
    return tuple(folder / name for name in names)


def _write(path: Path, chunks: Iterable[bytes]) -> dict[str, Any]:
    """Write a file, and say its size and digest."""
    digest, size = hashlib.sha256(), 0
    with atomic_write(path) as file:
        for chunk in chunks:
            file.write(chunk)
            digest.update(chunk)
            size += len(chunk)
    return {"bytes": size, "sha256": digest.hexdigest()}


def _weights(constants: Constants) -> Iterator[bytes]:
    for number, size in enumerate(constants.sizes):
        at = 0
        for offset, values in constants.arrays(number):
            yield bytes(offset - at)
            yield values.tobytes()
            at = offset + values.nbytes
        yield bytes(size - at)


def _document(prepared: GpuModel, program: GpuProgram) -> dict[str, Any]:
    layout, planset = program.layout, prepared.proved.planset
    plan = chosen_plan(prepared.proved)
    unit = layout.texel_bytes if prepared.target.texels else 1
    bounds = planset.bounds
    numbers = {tensor: k for k, tensor in enumerate(layout.places)}
    passes: list[dict[str, Any]] = []
    parts = Counter(one.tensors[-1][1] for step in program.steps for one in step.passes)
    left = parts.copy()
    for step in program.steps:
        op = step.op.name or step.op.type
        if step.is_view:
            passes.append({"op": op, "view": [numbers[step.op.inputs[0]], numbers[step.op.outputs[0]]]})
        for one in step.passes:
            output = one.tensors[-1][1]
            is_first = left[output] == parts[output]
            left[output] -= 1
            passes.append(
                {
                    "op": op,
                    "kernel": one.kernel,
                    "tensors": [[binding, numbers[tensor]] for binding, tensor in one.tensors],
                    "arrays": [list(pair) for pair in one.constants],
                    "reads": [numbers[tensor] for tensor in one.reads],
                    "over": -1 if one.over is None else numbers[one.over],
                    "groups": list(one.workgroups),
                    "part": [is_first, left[output]],
                }
            )
    at, kernels = 0, []
    for kernel in program.kernels:
        size = len(kernel.text.encode())
        kernels.append({"name": kernel.name, "offset": at, "bytes": size, "layout": [list(e) for e in kernel.layout]})
        at += size
    return {
        "format": "edgemem-program",
        "version": _VERSION,
        "name": prepared.name,
        "storage": prepared.storage,
        "precision": layout.precision,
        "plan": {
            "strategy": plan.strategy,
            "size": plan.size * unit,
            "lower_bound": (bounds.shared_objects if prepared.target.texels else bounds.offsets) * unit,
            "naive": planset.naive * unit,
            "digest": planset.digest,
        },
        "pieces": [[piece] if isinstance(piece, int) else list(piece) for piece in layout.pieces],
        "tensors": [_tensor(prepared.graph.tensors[i].name, place) for i, place in layout.places.items()],
        "constants": list(program.constants.sizes),
        "arrays": [[r.buffer, r.offset, r.size] for r in program.constants.ranges],
        "preludes": [prelude(has_f16=False), *([prelude(has_f16=True)] if layout.precision == "fp16" else [])],
        "kernels": kernels,
        "passes": passes,
        "inputs": [_border(prepared.graph.tensors[i], numbers[i]) for i in prepared.graph.inputs],
        "outputs": [_border(prepared.graph.tensors[i], numbers[i]) for i in prepared.graph.outputs],
    }


def _tensor(name: str, place: Place) -> dict[str, Any]:
    texels = place.texels
    return {
        "name": name,
        "piece": place.piece,
        "offset": place.offset,
        "bytes": place.size,
        "dims": list(place.stored.dims),
        "channels_first": place.stored.channels_first,
        "extent": [] if texels is None else [texels.width, texels.height, texels.layers],
        "row": 0 if texels is None else texels.row,
    }


def _border(tensor: Tensor, number: int) -> dict[str, Any]:
    return {"name": tensor.name, "dtype": tensor.dtype, "shape": list(tensor.shape), "tensor": number}


def _check_borders(prepared: GpuModel) -> None:
    """Raise UnsupportedError for inputs and outputs that have no memory."""
    graph, known = prepared.graph, prepared.program.constants
    for number in (*graph.inputs, *graph.outputs):
        tensor = graph.tensors[number]
        if 0 in tensor.shape or number in known or tensor.kind == "constant":
            raise UnsupportedError(f"{tensor.name!r} is empty or constant, and a page runs only what is computed")
