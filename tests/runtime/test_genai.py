"""onnxruntime-genai runs files that `plan --state` wrote, with the configuration that `fit -o` writes.

Its tokens are those of the file as it was exported.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

import edgemem
from edgemem.cli.main import main
from edgemem.commands.genai_config import describe_decoder
from edgemem.errors import ModelError
from models.decoder import Sizes, decoder
from tests.decoders import plain_session

if TYPE_CHECKING:
    from pathlib import Path

SIZES = Sizes(layers=3, heads=8, groups=2, width=16, vocabulary=300)
PROMPT = np.random.default_rng(1).integers(3, 300, (1, 21))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a decoder, the same with its states in place, and its ids."""
    onnx.save(decoder("concat", SIZES), tmp_path / "decoder.onnx")
    made = [
        "plan",
        str(tmp_path / "decoder.onnx"),
        "--state",
        "auto",
        "--no-record",
        "-o",
        str(tmp_path / "placed.onnx"),
    ]
    dims = {"batch": 1, "sequence": 1, "past": 99, "total": 100}
    result = CliRunner().invoke(main, [*made, *(f"--dim={name}={value}" for name, value in dims.items())])
    assert result.exit_code == 0, result.output
    ids = {"eos_token_id": [1, 2], "bos_token_id": 0, "hidden_size": 128, "num_attention_heads": 8, "other": 5}
    (tmp_path / "config.json").write_text(json.dumps(ids))
    return tmp_path


def _greedy(folder: Path, prompt: Any, count: int) -> list[int]:
    genai = pytest.importorskip("onnxruntime_genai")
    model = genai.Model(str(folder))
    parameters = genai.GeneratorParams(model)
    generator = genai.Generator(model, parameters)
    generator.append_tokens(prompt.astype(np.int32))
    tokens: list[int] = []
    while len(tokens) < count and not generator.is_done():
        generator.generate_next_token()
        tokens.append(int(generator.get_next_tokens()[0]))
    return tokens


@pytest.mark.parametrize("chunk", [512, 16])
def test_fit_writes_all_that_onnxruntime_genai_needs(chunk: int, folder: Path) -> None:
    pytest.importorskip("onnxruntime_genai")
    config = folder / "genai_config.json"
    (folder / "config.json").unlink()  # without ids of ends, 60 tokens come
    command = ["fit", str(folder / "placed.onnx"), "--budget", "4GiB", "--context", "128", "-o", str(config)]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    written = json.loads(config.read_text())
    assert written["search"] == {"max_length": 128, "past_present_share_buffer": True, "chunk_size": 128}
    assert written["model"]["decoder"]["filename"] == "placed.onnx"
    written["search"]["chunk_size"] = chunk
    config.write_text(json.dumps(written))
    exported = edgemem.DecoderState(plain_session(str(folder / "decoder.onnx")), 128, chunk=chunk)
    expected = exported.generate(PROMPT, 60)[0].tolist()
    assert len(set(expected)) > 5
    assert _greedy(folder, PROMPT, 60) == expected


@pytest.mark.parametrize("is_shared", [True, False])
def test_a_placed_file_runs_with_caches_that_are_one_buffer_and_with_caches_that_grow(
    folder: Path, *, is_shared: bool
) -> None:
    """It begins with a cache of 0 rows in the second case."""
    config = folder / "genai_config.json"
    described = describe_decoder(folder / "placed.onnx", config)
    described["model"]["context_length"] = 128
    described["model"]["eos_token_id"] = []
    described["search"] = {"max_length": 128, "past_present_share_buffer": is_shared}
    config.write_text(json.dumps(described))
    exported = edgemem.DecoderState(plain_session(str(folder / "decoder.onnx")), 128)
    assert _greedy(folder, PROMPT, 40) == exported.generate(PROMPT, 40)[0].tolist()


def test_the_description_is_of_the_model_and_of_what_transformers_wrote(folder: Path) -> None:
    (folder / "served").mkdir()
    made = describe_decoder(folder / "placed.onnx", folder / "served" / "genai_config.json")["model"]
    assert (made["vocab_size"], made["eos_token_id"], made["bos_token_id"]) == (300, [1, 2], 0)
    assert "pad_token_id" not in made
    decoder_ = made["decoder"]
    assert (folder / "served" / decoder_["filename"]).resolve() == folder / "placed.onnx"
    figures = ("num_hidden_layers", "num_key_value_heads", "head_size", "num_attention_heads", "hidden_size")
    assert [decoder_[name] for name in figures] == [3, 2, 16, 8, 128]
    assert decoder_["inputs"]["past_value_names"] % 2 == "past_key_values.2.value"
    assert decoder_["outputs"]["present_key_names"] % 0 == "present.0.key"
    assert "position_ids" not in decoder_["inputs"]


@pytest.mark.parametrize("form", ["concat_bsnh", "speaker"])
def test_decoders_that_onnxruntime_genai_cannot_run_are_refused(form: str, tmp_path: Path) -> None:
    model = decoder("concat_bsnh") if form == "concat_bsnh" else decoder()
    if form == "speaker":
        model.graph.input.append(onnx.helper.make_tensor_value_info("speaker", onnx.TensorProto.INT64, [1]))
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(ModelError, match=r"has the inputs or outputs speaker|has 4 caches of other forms"):
        describe_decoder(tmp_path / "m.onnx", tmp_path / "genai_config.json")
