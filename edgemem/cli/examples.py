"""Two examples for every command, which end its `--help`; a test parses each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["EXAMPLES"]

EXAMPLES: Final[Mapping[str, tuple[str, str]]] = {
    "plan": ("edgemem plan model.onnx -o model.planned.onnx", "edgemem plan model.tflite --budget 256KiB"),
    "shrink": ("edgemem shrink model.tflite --budget 256KiB", "edgemem shrink model.onnx -o small.onnx"),
    "fit": ("edgemem fit decoder.onnx --budget 2GiB", "edgemem fit decoder.onnx --budget 2GiB -o genai_config.json"),
    "strategies": ("edgemem strategies", "edgemem strategies --json"),
    "verify": ("edgemem verify model.planned.onnx", "edgemem verify --run model.planned.tflite"),
    "run": ("edgemem run model.planned.onnx --compare", "edgemem run model.planned.tflite --runtime litert"),
    "show": ("edgemem show model.planned.onnx --top 20", "edgemem show model.planned.tflite --tensors"),
    "export": (
        "edgemem export model.planned.onnx -f svg -o plan.svg",
        "edgemem export model.planned.tflite -f c-header -o plan.h",
    ),
    "report": (
        "edgemem report model.onnx -o report.html",
        "edgemem report new.tflite --against old.tflite -o report.html",
    ),
    "diff": ("edgemem diff old.tflite new.tflite", "edgemem diff HEAD~1:model.onnx model.onnx"),
    "check": ("edgemem check models.toml", "edgemem check models.toml --update"),
    "size": ("edgemem size model.tflite", "edgemem size model.onnx --dim batch=1,8,32 --threads 4 --processes 2"),
    "measure": ("edgemem measure model.onnx --processes 4", "edgemem measure model.tflite --against small.tflite"),
    "trace": ("edgemem trace snapshot.pickle", "edgemem trace snapshot.pickle -o plan.edgemem"),
    "probe": ("edgemem probe", "edgemem probe --profile cmsis-nn-dsp"),
    "android": ("edgemem android project model.planned.onnx -o app", "edgemem android verify app.apk"),
    "android aar": (
        "edgemem android aar --onnxruntime onnxruntime.aar -o edgemem.aar",
        "edgemem android aar --onnxruntime onnxruntime.aar --abi arm64-v8a -o edgemem.aar",
    ),
    "android project": (
        "edgemem android project model.planned.onnx -o app",
        "edgemem android project model.planned.tflite --library edgemem.aar -o app",
    ),
    "android package": (
        "edgemem android package model.planned.onnx --onnxruntime onnxruntime.aar -o app.apk",
        "edgemem android package model.planned.onnx --onnxruntime onnxruntime.aar --key mine.p12 -o app.apk",
    ),
    "android verify": ("edgemem android verify app.apk", "edgemem android verify app.apk --json"),
    "help": ("edgemem help", "edgemem help plan"),
}
