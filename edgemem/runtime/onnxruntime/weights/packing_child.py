"""Lets ONNX Runtime optimise a model and save it with its constants packed. A process of its own; see packing.py.

ONNX Runtime holds the weights several times while it packs them. The memory goes with the process.
"""

from __future__ import annotations

from pathlib import Path

from edgemem.errors import ModelError, RuntimeLoadError
from edgemem.formats import onnx_editor
from edgemem.runtime.onnxruntime.baked_file import onnxruntime, runtime_errors
from edgemem.runtime.onnxruntime.file import BAKED_KEY, metadata_of, opened, weight_files
from edgemem.runtime.onnxruntime.file_options import options_for_file
from edgemem.runtime.onnxruntime.weights.note import CPU, file_name
from edgemem.system.child_call import Message, serve

_LEAST_BYTES = "1024"  # of a constant that leaves the graph; smaller ones are shapes and scalars
_ERRORS_ONLY = 3  # log severity; ONNX Runtime warns that the file is for this environment


def pack(question: Message) -> Message:
    """Write both files into a folder, as a session of this model with default options has them.

    The answer has `is_same`: whether the graph computes what another one does, which the question may name.

    Raises RuntimeLoadError where ONNX Runtime cannot load the model, ModelError where a baked one is not kept whole and
    for weights whose change would not be seen.
    """
    model, folder, name = Path(question.data["model"]), Path(question.data["folder"]), question.data["name"]
    _refuse_hidden_files(model)
    ort = onnxruntime()
    options = ort.SessionOptions()
    options.log_severity_level = _ERRORS_ONLY
    options.intra_op_num_threads = 1
    graph = folder / file_name(name, "graph")
    options.optimized_model_filepath = str(graph)
    for key, value in (
        ("optimized_model_external_initializers_file_name", file_name(name, "weights")),
        ("optimized_model_external_initializers_min_size_in_bytes", _LEAST_BYTES),
        ("save_external_prepacked_constant_initializers", "1"),
    ):
        options.add_session_config_entry(f"session.{key}", value)
    try:
        with opened(model) as (data, _), options_for_file(data, options):
            ort.InferenceSession(str(model), options, providers=[CPU])
            if metadata_of(data, (BAKED_KEY,)):
                graph.write_bytes(_in_order_of(model, graph))
    except runtime_errors() as e:
        raise RuntimeLoadError(f"ONNX Runtime cannot pack {model.name}: {str(e).splitlines()[0]}") from None
    # ONNX Runtime 1.31.1 crashes where vectors of a mapped constant begin anywhere (LeViT).
    weights = graph.with_name(file_name(name, "weights"))
    if weights.is_file():
        unaligned = weights.replace(folder / "unaligned")
        graph.write_bytes(onnx_editor().align_constants(graph.read_bytes(), unaligned, weights))
        unaligned.unlink()
    other = question.data["other"]
    digests = {onnx_editor().computation_digest(Path(file).read_bytes()) for file in (graph, other or graph)}
    return Message({"is_same": len(digests) == 1})


def _refuse_hidden_files(model: Path) -> None:
    """Raise ModelError for files with weights that `weight_files` does not find, so that sessions do not compare them.

    Sessions look for files at the graph's own constants alone: a search in all bodies would take longer than loading.
    """
    with opened(model) as (data, _):
        known = weight_files(data)
    if hidden := set(onnx_editor().weight_files(model.read_bytes())) - set(known):
        raise ModelError(
            f"{model.name} has constants of an operator's body or attributes in {min(hidden)!r}, which packed weights "
            "are not compared with; save the model with these constants inside, or use --weights plain"
        )


def _in_order_of(model: Path, graph: Path) -> bytes:
    """The graph with its nodes in the order of a baked model's file, which ONNX Runtime does not save."""
    editor = onnx_editor()
    data = graph.read_bytes()
    places = {
        outputs[0]: k
        for k, outputs in enumerate(editor.parts(model.read_bytes(), model.parent).node_outputs)
        if outputs
    }
    try:
        order = [places[outputs[0]] for outputs in editor.parts(data, graph.parent).node_outputs]
    except (KeyError, IndexError):
        raise ModelError(f"ONNX Runtime changes the graph of {model.name}; use --weights plain") from None
    return editor.prioritised(editor.reordered(data, sorted(range(len(order)), key=order.__getitem__)))


if __name__ == "__main__":
    serve(pack)
