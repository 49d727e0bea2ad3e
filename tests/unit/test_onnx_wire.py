"""Changes to the bytes of a model: what is asked for, and not a byte more."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import ModelProto, parser

from edgemem.errors import ModelError
from edgemem_converters.onnx.model import OnnxConverter
from edgemem_converters.onnx.wire import metadata, permute_nodes, with_metadata, without_metadata

TEXT = st.text(max_size=200)
KEYS = st.sampled_from(["edgemem.plan", "edgemem.plan.", "author", ""])
BASE = parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
    g (float[4] x) => (float[4] a, float[4] bbbbbbbbbb, float[4] c)
    { a = Relu (x)  bbbbbbbbbb = Exp (x)  c = Neg (x) }""")


def model(entries: list[tuple[str, str]]) -> ModelProto:
    made = ModelProto()
    made.CopyFrom(BASE)
    for key, value in entries:
        made.metadata_props.add(key=key, value=value)
    return made


@given(
    st.lists(st.tuples(KEYS, TEXT), max_size=5),
    st.binary(max_size=2_000) | st.sampled_from([bytes(35_000), bytes(70_000)]),
)
def test_an_entry_is_replaced_wherever_it_stands(entries: list[tuple[str, str]], value: bytes) -> None:
    data = model(entries).SerializeToString()
    text = value.hex().encode()
    changed = with_metadata(data, "edgemem.plan", text)
    kept = [e for e in entries if e[0] != "edgemem.plan"]
    assert ModelProto.FromString(changed) == model([*kept, ("edgemem.plan", text.decode())])
    assert metadata(changed, "edgemem.plan") == text
    assert with_metadata(changed, "edgemem.plan", text) == changed
    assert ModelProto.FromString(without_metadata(changed, "edgemem.plan")) == model(kept)
    if kept == entries:
        assert changed.startswith(data)
        assert without_metadata(changed, "edgemem.plan") == data
        assert metadata(data, "edgemem.plan") is None


def test_the_last_of_several_entries_counts() -> None:
    data = model([("edgemem.plan", "old"), ("author", "me"), ("edgemem.plan", "new")]).SerializeToString()
    assert metadata(data, "edgemem.plan") == b"new"


@given(st.permutations(range(3)))
def test_nodes_change_places(order: list[int]) -> None:
    data = BASE.SerializeToString()
    expected = ModelProto()
    expected.CopyFrom(BASE)
    del expected.graph.node[:]
    expected.graph.node.extend(BASE.graph.node[k] for k in order)
    assert ModelProto.FromString(permute_nodes(data, tuple(order))) == expected
    assert len(permute_nodes(data, tuple(order))) == len(data)


def test_fields_that_are_not_onnx_stay() -> None:
    unknown = (
        bytes([(200 << 3 | 0) & 0x7F | 0x80, 200 << 3 >> 7, 42, 0xA1, 0x06])
        + bytes(8)
        + bytes([0xA5, 0x06, 1, 2, 3, 4])
    )
    data = unknown + BASE.SerializeToString()
    assert permute_nodes(data, (2, 1, 0)).startswith(unknown)
    assert with_metadata(data, "k", b"v").startswith(data)


def test_a_graph_in_pieces_is_not_reordered() -> None:
    piece = ModelProto(graph=onnx.GraphProto(doc_string="more")).SerializeToString()
    with pytest.raises(ModelError, match="2 pieces"):
        permute_nodes(BASE.SerializeToString() + piece, (0, 1, 2))


@pytest.mark.parametrize("data", [b"\x72", b"\x72\x80", b"\x72\x05ab", b"\x73", b"\xff" * 12, b"\x09abc"])
def test_damaged_bytes(data: bytes) -> None:
    with pytest.raises(ModelError):
        metadata(data, "edgemem.plan")
    with pytest.raises(ModelError, match=r"^damaged\.onnx"):
        OnnxConverter.from_bytes(data, path=Path("damaged.onnx"))
