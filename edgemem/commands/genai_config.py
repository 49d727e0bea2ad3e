"""Values of onnxruntime-genai's genai_config.json that follow from a budget, and their place in such a file."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any, Final

from edgemem.errors import ModelError
from edgemem.formats import Stateful, load_model
from edgemem.system.files import atomic_write
from edgemem.system.regular_files import read_bounded

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from edgemem.commands.fit import Fit

__all__ = ["describe_decoder", "genai_values", "merge_config"]

_MOST_BYTES: Final = 16 << 20  # of a configuration
_MOST_IDS: Final = 64  # of tokens for one purpose
_INPUTS: Final = ("input_ids", "attention_mask", "position_ids")
_TOKEN_IDS: Final = ("bos_token_id", "eos_token_id", "pad_token_id")
_OF_TRANSFORMERS: Final = ("hidden_size", "num_attention_heads")


def describe_decoder(path: Path, config: Path) -> dict[str, dict[str, Any]]:
    """What a genai_config.json says of a decoder, besides `genai_values`, by section.

    Args:
        path: the decoder's .onnx file. Numbers in the `config.json` of transformers beside it are taken over, if
            that is a regular file and no link.
        config: the file that is to be written; the decoder is named as seen from its folder.

    Raises ModelError for a decoder that onnxruntime-genai does not run by itself: with other inputs, or with caches
    that are not a key and a value [batch, heads, tokens, width] for each layer.
    """
    model = load_model(path)
    if not isinstance(model, Stateful):
        raise ModelError(f"{path.name}: its format has no states; this needs an .onnx decoder")
    pairs = model.noted_states() or model.states({})
    forms = {name: dims for name, (_, dims) in model.declared().items()}
    dims = forms[pairs[0].past] if pairs else ()
    others = set(forms) - {p.past for p in pairs} - {p.present for p in pairs} - {*_INPUTS, "logits"}
    layouts = {(len(forms[p.past]), p.axis) for p in pairs}
    patterns = dict.fromkeys((_pattern(p.past), _pattern(p.present)) for p in pairs)
    if others or layouts != {(4, 2)} or len(patterns) != 2 or "logits" not in forms:
        found = (
            f"the inputs or outputs {', '.join(sorted(others))}" if others else f"{len(pairs)} caches of other forms"
        )
        raise ModelError(
            f"{path.name} has {found}, so its genai_config.json cannot be written from the model alone; write one by "
            "hand, and fit fills in its figures"
        )
    keys, values = sorted(patterns, key=lambda names: "key" not in names[0])
    known = _of_transformers(path.parent / "config.json")
    decoder: dict[str, Any] = {
        "session_options": {"provider_options": []},
        "filename": os.path.relpath(path, config.parent),
        "num_hidden_layers": len(pairs) // 2,
        "num_key_value_heads": dims[1],
        "head_size": dims[3],
        **{name: known[name] for name in _OF_TRANSFORMERS if name in known},
        "inputs": {
            **{name: name for name in _INPUTS if name in forms},
            "past_key_names": keys[0],
            "past_value_names": values[0],
        },
        "outputs": {"logits": "logits", "present_key_names": keys[1], "present_value_names": values[1]},
    }
    ids = {name: known[name] for name in _TOKEN_IDS if known.get(name) is not None}
    # "decoder" is the type of all models with these inputs, whatever their architecture.
    return {"model": {"type": "decoder", "vocab_size": forms["logits"][-1], **ids, "decoder": decoder}}


def _pattern(name: str) -> str:
    """The name with `%d` for the number of its layer."""
    return re.sub(r"\d+", "%d", name, count=1)


def _of_transformers(path: Path) -> dict[str, Any]:
    """What a config.json says, {} if there is none that can be read."""
    try:
        made = _read(path, follow=False)
    except (OSError, ModelError):
        return {}
    numbers = {name: made.get(name) for name in (*_OF_TRANSFORMERS, *_TOKEN_IDS)}
    return {name: value for name, value in numbers.items() if _is_number(value)}


def _is_number(value: object) -> bool:
    """Whether it is a whole number, or a short list of such: a model may have several tokens that end a text."""
    listed = value if isinstance(value, list) and len(value) <= _MOST_IDS else [value]
    return bool(listed) and all(type(one) is int and abs(one) < 1 << 63 for one in listed)


def _read(path: Path, sections: Iterable[str] = (), *, follow: bool = True) -> dict[str, Any]:
    """The object in a JSON file. Raises ModelError if there is none, or if a section in it is none."""
    try:
        config = json.loads(read_bounded(path, _MOST_BYTES, follow=follow))
    except (ValueError, RecursionError):
        config = None
    if not isinstance(config, dict) or not all(isinstance(config.get(name, {}), dict) for name in sections):
        raise ModelError(f"{path} is no {path.name}; name another file, or remove it")
    return config


def genai_values(made: Fit) -> dict[str, dict[str, Any]]:
    """The values that follow, by section."""
    return {
        "model": {"context_length": made.best.context},
        "search": {
            "max_length": made.best.context,
            "past_present_share_buffer": made.mode == "in place",
            "chunk_size": made.best.chunk,
        },
    }


def merge_config(path: Path, values: dict[str, dict[str, Any]]) -> None:
    """Write the values into a file, atomically; everything else in it stays. It is made if it is not there.

    Raises ModelError if the file holds no JSON object, or a section in it is none.
    """
    config = _read(path, values) if path.exists() else {}
    for name, section in values.items():
        config[name] = {**config.get(name, {}), **section}
    with atomic_write(path) as out:
        out.write((json.dumps(config, indent=4, ensure_ascii=False) + "\n").encode())
