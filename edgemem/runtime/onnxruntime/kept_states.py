"""Keeps a decoder's caches in one buffer each, and checks that its outputs stay equal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from edgemem.errors import ModelError, UnsupportedError
from edgemem.formats import Model, Stateful
from edgemem.runtime.onnxruntime.baked_file import onnxruntime, quiet_options
from edgemem.runtime.onnxruntime.decoder import DecoderState
from edgemem.runtime.onnxruntime.decoder_inputs import MADE_HERE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from edgemem.model.states import StatePair
    from edgemem.passes.protocol import PassContext

__all__ = ["ALL_STATES", "check_equal", "keep_states"]

ALL_STATES: Final = "auto"  # instead of a pattern: every state that is found
_STEPS: Final = (3, 1, 1, 2)  # tokens of the runs that are compared
_UNUSED: Final = 3  # rows behind them
# Of the largest logit. Operators that are in another form round in another order: a unit of float16 is 1e-3 of it.
_TOLERANCE: Final = 1e-4
_TOLERANCE_UNITS: Final = 4


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
    named = {past: present for past, present in patterns.items() if past != ALL_STATES}
    wanted = model.states(named) if named else ()
    found = () if named and ALL_STATES not in patterns else model.states({})
    pairs = model.noted_states() or tuple({pair.past: pair for pair in (*found, *wanted)}.values())
    if not pairs:
        raise ModelError(
            f"{context.path.name} has no input that comes back as an output; name them: --state PAST=PRESENT"
        )
    _refuse_other(pairs, wanted)
    changed = model.with_states(pairs)
    if any(pair.growth == "appended" for pair in pairs):
        folder = context.folder / "states"
        folder.mkdir()
        path = folder / context.path.name
        changed.save(path)
        check_equal(context.path, path, pairs, context.bindings.dims, context.feeds)
    return changed


def _refuse_other(pairs: Sequence[StatePair], wanted: Sequence[StatePair]) -> None:
    """Raise UnsupportedError for states that a user named, or all of them, where the option would do nothing."""
    known = {(pair.past, pair.present): pair for pair in pairs}
    for pair in wanted:
        if (pair.past, pair.present) not in known:
            raise UnsupportedError(
                f"the file has a note of its states, without {pair.past!r} = {pair.present!r}; name the state when you "
                "plan the model that it was made from"
            )
    anew = [known[p.past, p.present] for p in wanted if known[p.past, p.present].growth == "replaced"]
    if anew or all(pair.growth == "replaced" for pair in pairs):
        pair = (anew or pairs)[0]
        raise UnsupportedError(
            f"{pair.present!r} is made anew{f' by {pair.operator}' if pair.operator else ''} at every run, from all of "
            f"{pair.past!r}: it cannot be written into that buffer, so a state of both would change nothing; leave "
            "--state out for it"
        )


def check_equal(
    before: Path,
    after: Path,
    pairs: tuple[StatePair, ...],
    sizes: Mapping[str, int],
    feeds: Mapping[str, NDArray[Any]] | None = None,
) -> None:
    """Raise UnsupportedError unless two decoders give the same tokens, and logits that are close, in a few steps.

    Buffers of the changed one are filled with a pattern first, so that a read of unused rows shows.

    Args:
        before: a model whose caches grow.
        after: the same model with caches in place.
        pairs: the states of the former.
        sizes: values of the model's dimensions, by name; they tell the batch.
        feeds: values of inputs that are neither caches nor tokens.
    """
    ort = onnxruntime()
    made = []
    batch = sizes.get("batch", sizes.get("batch_size", 1))
    for path, states in ((before, pairs), (after, None)):
        options = quiet_options()
        rng = np.random.default_rng(0)
        try:
            session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
            names = {value.name for value in session.get_inputs()} - MADE_HERE - {pair.past for pair in pairs}
            others = {name: value for name, value in (feeds or {}).items() if name in names}
            with DecoderState(session, sum(_STEPS) + _UNUSED, batch=batch, states=states, sizes=sizes) as state:
                state.fill(0xFF)
                made.append([state.logits(rng.integers(0, 10, (batch, n)), others) for n in _STEPS])
        except Exception as e:  # noqa: BLE001 - ONNX Runtime's own kinds, too
            raise UnsupportedError(
                f"the model cannot be run to compare it with the changed one: {' '.join(str(e).split())}; leave "
                "--state out"
            ) from None
    for number, (old, new) in enumerate(zip(*made, strict=True)):
        scale = max(float(np.abs(old).max()), 1e-30)
        unit = float(np.finfo(old.dtype).eps) if old.dtype.kind == "f" else 0.0
        bound = max(_TOLERANCE, _TOLERANCE_UNITS * unit) * scale
        close = old.shape == new.shape and np.allclose(
            old.astype(float), new.astype(float), rtol=0, atol=bound, equal_nan=True
        )
        if not close or (old.argmax(-1) != new.argmax(-1)).any():
            raise UnsupportedError(
                f"with its states in place the model gives other logits in step {number}; leave --state out: the "
                "caches then take turns in two buffers"
            )
