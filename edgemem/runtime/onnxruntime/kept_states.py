"""Keeps a decoder's caches in one buffer each, and checks that its outputs stay equal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from edgemem.errors import ModelError, UnsupportedError
from edgemem.formats import Model, Stateful
from edgemem.runtime.onnxruntime.baked_file import onnxruntime
from edgemem.runtime.onnxruntime.decoder import DecoderState
from edgemem.runtime.onnxruntime.decoder_inputs import MADE_HERE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from edgemem.model.states import StatePair
    from edgemem.passes.protocol import PassContext

__all__ = ["ALL_STATES", "check_equal", "keep_states"]

ALL_STATES: Final = "auto"  # instead of a pattern: every state that is found
_STEPS: Final = (3, 1, 1, 2)  # tokens of the runs that are compared
_UNUSED: Final = 3  # rows behind them
_TOLERANCE: Final = 1e-4  # of the largest logit


def keep_states(model: Model, patterns: Mapping[str, str], context: PassContext) -> Model:
    """The model with its states in place, compared with the one before on random tokens.

    A decoder's states are noted in the file; those that a Concat appends to are written into one buffer instead, so
    that their inputs and outputs get another shape: therefore this is no pass. A file that has a note of its states
    keeps it.

    Args:
        model: the model.
        patterns: input -> output; `auto` alone finds the states.
        context: what a pass would get.

    Raises ModelError for a pattern that fits nothing, UnsupportedError for states that cannot be kept in place.
    """
    if not isinstance(model, Stateful):
        raise ModelError(f"{context.path.name}: its format has no states; leave --state out")
    pairs = model.noted_states() or model.states({p: q for p, q in patterns.items() if p != ALL_STATES})
    if not pairs:
        raise ModelError(
            f"{context.path.name} has no input that comes back as an output; name them: --state PAST=PRESENT"
        )
    changed = model.with_states(pairs)
    if any(pair.growth == "appended" for pair in pairs):
        folder = context.folder / "states"
        folder.mkdir()
        path = folder / context.path.name
        changed.save(path)
        check_equal(context.path, path, pairs, context)
    return changed


def check_equal(before: Path, after: Path, pairs: tuple[StatePair, ...], context: PassContext) -> None:
    """Raise UnsupportedError unless two decoders give the same tokens, and logits that are close, in a few steps.

    Buffers of the changed one are filled with a pattern first, so that a read of unused rows shows.

    Args:
        before: a model whose caches grow.
        after: the same model with caches in place.
        pairs: the states of the former.
        context: tells the batch, and values of inputs that are neither caches nor tokens.
    """
    ort = onnxruntime()
    made = []
    batch = context.bindings.dims.get("batch", context.bindings.dims.get("batch_size", 1))
    others: dict[str, Any] = {}
    for path, states in ((before, pairs), (after, None)):
        options = ort.SessionOptions()
        options.log_severity_level = 4
        session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        rng = np.random.default_rng(0)
        names = {value.name for value in session.get_inputs()} - MADE_HERE - {pair.past for pair in pairs}
        others = {name: value for name, value in (context.feeds or {}).items() if name in names}
        with DecoderState(
            session, sum(_STEPS) + _UNUSED, batch=batch, states=states, sizes=context.bindings.dims
        ) as state:
            state.fill(0xFF)
            try:
                made.append([state.logits(rng.integers(0, 10, (batch, n)), others) for n in _STEPS])
            except Exception as e:  # noqa: BLE001 - ONNX Runtime's own kinds
                raise UnsupportedError(
                    f"the model cannot be run to compare it with the changed one: {e}; leave --state out"
                ) from None
        del session
    for number, (old, new) in enumerate(zip(*made, strict=True)):
        scale = max(float(np.abs(old).max()), 1e-30)
        close = old.shape == new.shape and np.allclose(old, new, rtol=0, atol=_TOLERANCE * scale, equal_nan=True)
        if not close or (old.argmax(-1) != new.argmax(-1)).any():
            raise UnsupportedError(
                f"with its states in place the model gives other logits in step {number}; leave --state out: the "
                "caches then take turns in two buffers"
            )
