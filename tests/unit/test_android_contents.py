from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem.android.contents import INFO, Info, Value, classes_of, decode_info, encode_info, task_for
from edgemem.errors import ApkError

INFOS = st.builds(
    Info,
    form=st.sampled_from(["onnx", "tflite"]),
    sha256=st.text(max_size=64),
    edgemem=st.text(max_size=9),
    runtime=st.text(max_size=9),
    task=st.sampled_from(["faces", "classes", "tensors"]),
    labels=st.booleans(),
    preprocess=st.sampled_from(["minus_one_to_one", "zero_to_one", "imagenet", ""]),
    level=st.sampled_from(["none", "basic", "extended", "all"]),
    shapes=st.dictionaries(st.text(), st.lists(st.integers(0, 1 << 40)).map(tuple)),
).filter(lambda info: info.form == "onnx" or info.level == "extended")
PLAIN = Info("onnx", "00", "0.1.0", "1.29.0", "tensors", labels=False, preprocess="", shapes={"x": (1, 3)})


@pytest.mark.full
@given(INFOS)
def test_what_is_written_is_read(info: Info) -> None:
    content = encode_info(info)
    assert decode_info(content) == info
    assert content.isascii()


def test_what_the_app_reads() -> None:
    assert json.loads(encode_info(PLAIN)) == {
        "edgemem": "0.1.0",
        "form": "onnx",
        "level": "extended",
        "model": "model.onnx",
        "runtime": "1.29.0",
        "sha256": "00",
        "shapes": {"x": [1, 3]},
        "task": "tensors",
    }
    more = json.loads(encode_info(replace(PLAIN, labels=True, preprocess="imagenet")))
    assert (more["labels"], more["preprocess"]) == ("labels.txt", "imagenet")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"form": "caffe"}, "form is none of onnx, tflite"),
        ({"form": ["onnx"]}, "form is none of"),
        ({"model": "other.onnx"}, "names another model"),
        ({"sha256": 7}, "sha256 is no text"),
        ({"task": None}, "task is none of faces"),
        ({"shapes": []}, "damaged"),
        ({"shapes": {"x": "12"}}, "something else than sizes"),
        ({"shapes": {"x": [1, -1]}}, "something else than sizes"),
        ({"shapes": {"x": [1, True]}}, "something else than sizes"),
        ({"shapes": {"x": [1, 1.5]}}, "something else than sizes"),
        ({"preprocess": "sepia"}, "preprocess is none of"),
        ({"level": "most"}, "level is none of"),
    ],
)
def test_a_description_that_is_wrong(values: dict[str, Any], said: str) -> None:
    with pytest.raises(ApkError, match=said):
        decode_info(json.dumps(json.loads(encode_info(PLAIN)) | values).encode())


@pytest.mark.parametrize("key", ["form", "model", "sha256", "edgemem", "runtime", "task", "shapes"])
def test_a_description_that_lacks_something(key: str) -> None:
    data = json.loads(encode_info(PLAIN))
    del data[key]
    with pytest.raises(ApkError, match=f"{INFO} of the package lacks '{key}'"):
        decode_info(json.dumps(data).encode())


@pytest.mark.parametrize(
    "content", [b"", b"\xff", b"[]", b"1", b"null", b"[" * 100_000, b'{"form": "onnx"', b" " * ((1 << 20) + 1)]
)
def test_what_is_no_description(content: bytes) -> None:
    with pytest.raises(ApkError, match="damaged"):
        decode_info(content)


def values(*shapes: tuple[int, ...], dtype: str = "float32") -> list[Value]:
    return [Value(f"v{n}", dtype, shape) for n, shape in enumerate(shapes)]


@pytest.mark.parametrize(
    ("inputs", "outputs", "task"),
    [
        (values((1, 3, 128, 128)), values((1, 896, 16), (1, 896, 1)), "faces"),
        (values((1, 128, 128, 3)), values((1, 512, 1), (1, 384, 1), (1, 512, 16), (1, 384, 16)), "faces"),
        (values((1, 3, 240, 320)), values((1, 4420, 2), (1, 4420, 4)), "faces"),
        (values((1, 3, 240, 320)), values((1, 4420, 2), (1, 4421, 4)), "tensors"),
        (values((1, 3, 128, 128)), values((1, 128, 16), (1, 128, 1)), "tensors"),
        (values((1, 3, 64, 64)), values((1, 224, 16), (1, 224, 1)), "faces"),
        (values((1, 3, 128, 128)), values((1, 896, 16), (1, 512, 1)), "tensors"),
        (values((1, 3, 224, 224)), values((1, 1000)), "classes"),
        (values((1, 224, 224, 3)), values((1, 1000, 1, 1)), "classes"),
        (values((2, 3, 224, 224)), values((2, 1000)), "tensors"),
        (values((1, 1, 224, 224)), values((1, 1000)), "tensors"),
        (values((1, 3, 224, 224)), values((1, 1)), "tensors"),
        (values((1, 3, 224, 224)), values((1, 1000), dtype="int64"), "tensors"),
        (values((1, 3, 320, 320)), values((1, 1, 320, 320)), "tensors"),
        (values((1, 16), (1, 16)), values((1, 2)), "tensors"),
        (values((1, 3, 64, 64)), [], "tensors"),
    ],
)
def test_what_an_app_can_show(inputs: list[Value], outputs: list[Value], task: str) -> None:
    assert task_for(inputs, outputs) == task


def test_how_many_classes_there_are() -> None:
    assert classes_of(values((1, 1000, 1, 1))) == 1000
    assert classes_of(values((1, 1000), (1, 1000))) is None
    assert classes_of(values((1000,))) is None
