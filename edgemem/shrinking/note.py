"""How a model was made: a note in its file of each `shrink` that changed it.

The note is a claim, for people and for another `shrink` of the same model. Nothing that must be right depends on it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from math import isfinite
from typing import TYPE_CHECKING, Final

from edgemem.errors import PlanFileError
from edgemem.formats import Noted
from edgemem.report.sizes import size_text
from edgemem.shrinking.candidate import describe_outputs
from edgemem.system.distribution import VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from edgemem.formats import Model
    from edgemem.shrinking.candidate import Candidate

__all__ = ["ShrinkNote", "decode_notes", "encode_notes", "note_of", "notes_in", "with_notes"]

KEY: Final = "edgemem.shrunk"  # the note's name in the metadata of a file
_MOST: Final = 8  # changes that a note keeps, the latest
_MOST_TEXT: Final = 4_096
_MOST_BYTES: Final = _MOST * 16_384
_MOST_NUMBER: Final = 2**53  # integers that every reader of JSON has exactly


@dataclass(frozen=True, slots=True)
class ShrinkNote:
    """One `shrink`, as a file has it.

    Attributes:
        steps: what was done, as `edgemem shrink --steps` takes it.
        target: whose rules counted the memory.
        memory: bytes that the runtime takes for the changed model.
        memory_before: bytes that it took for the model as it was, at least.
        macs: multiply-accumulate operations of the changed model / those of the model as it was.
        operators: of the changed model.
        operators_before: of the model as it was.
        latency: processor time of a run / that of the model as it was, in files of edgemem 1.0 and before; now None: a
            measured time differs from run to run, and the same command gives the same file.
        outputs: how they compared with those of the model as it was, or why they were not compared.
        runtime: what ran both models, with its version; "" for nothing.
        edgemem: the version that made the change.
    """

    steps: str
    target: str
    memory: int
    memory_before: int
    macs: float
    operators: int
    operators_before: int
    latency: float | None
    outputs: str
    runtime: str
    edgemem: str

    def __str__(self) -> str:
        parts = [f"{size_text(self.memory)} instead of at least {size_text(self.memory_before)} for {self.target}"]
        parts.append(f"arithmetic {self.macs:.3f}x")
        if self.latency is not None:
            parts.append(f"{self.latency:.2f}x the time")
        parts.append(f"{self.operators:,} operators instead of {self.operators_before:,}")
        parts.append(describe_outputs(self.outputs, self.target))
        made = " and ".join(filter(None, (f"edgemem {self.edgemem}", self.runtime)))
        return f"--steps {self.steps}: {', '.join(parts)} ({made})"


def note_of(chosen: Candidate, before: Candidate) -> ShrinkNote:
    """What a note says of a candidate that was made of a model; `before` is the model as it is."""
    return ShrinkNote(
        chosen.text if len(chosen.text) <= _MOST_TEXT else f"{chosen.text[: _MOST_TEXT - 1]}…",
        chosen.target.name,
        chosen.memory,
        before.memory,
        chosen.macs,
        chosen.operators,
        before.operators,
        None,
        _printable(chosen.outputs),
        _printable(chosen.runtime),
        VERSION,
    )


def notes_in(model: Model) -> tuple[ShrinkNote, ...]:
    """What the note in a model says, the first change first; () without a note. Raises as `decode_notes`."""
    data = model.note(KEY) if isinstance(model, Noted) else None
    return () if data is None else decode_notes(data)


def with_notes(model: Model, notes: Sequence[ShrinkNote]) -> Model:
    """The model with a note of these changes, of which the latest eight are kept; the model itself for none."""
    if not notes or not isinstance(model, Noted):
        return model
    return model.with_note(KEY, encode_notes(notes[-_MOST:]))


def encode_notes(notes: Sequence[ShrinkNote]) -> bytes:
    """The note: a JSON list with an object for each change, without the first ones where there is no room for all."""
    while True:
        data = json.dumps([asdict(note) for note in notes], ensure_ascii=False).encode()
        if len(data) <= _MOST_BYTES or len(notes) < 2:
            return data
        notes = notes[1:]


def decode_notes(data: bytes) -> tuple[ShrinkNote, ...]:
    """The changes that a note lists; fields of later versions are left out. Accepts any bytes.

    Raises PlanFileError for bytes that are no such note: texts are printable and have a limit, numbers too.
    """
    try:
        return _decoded(data)
    except (ValueError, RecursionError) as e:
        raise PlanFileError(
            f"the note {KEY} is damaged: {str(e)[:200]}; shrink the model that the file was made from again"
        ) from None


def _decoded(data: bytes) -> tuple[ShrinkNote, ...]:
    """The changes. Raises ValueError for what is none."""
    if len(data) > _MOST_BYTES:
        raise ValueError(f"it has {len(data):,} bytes")
    listed = json.loads(data.decode())
    if not isinstance(listed, list) or not 1 <= len(listed) <= _MOST or not all(isinstance(e, dict) for e in listed):
        raise ValueError("it is no list of changes")
    wrong = next((name for entry in listed for name, is_right in _FIELDS.items() if not is_right(entry.get(name))), "")
    if wrong:
        raise ValueError(f"{wrong} is missing or none")
    return tuple(ShrinkNote(**{name: entry[name] for name in _FIELDS}) for entry in listed)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= _MOST_TEXT and value.isprintable()


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= _MOST_NUMBER


def _is_ratio(value: object) -> bool:
    return _is_count(value) or (isinstance(value, float) and isfinite(value) and 0 <= value <= _MOST_NUMBER)


_FIELDS: Final[Mapping[str, Callable[[object], bool]]] = {
    "steps": _is_text,
    "target": _is_text,
    "memory": _is_count,
    "memory_before": _is_count,
    "macs": _is_ratio,
    "operators": _is_count,
    "operators_before": _is_count,
    "latency": lambda value: value is None or _is_ratio(value),
    "outputs": _is_text,
    "runtime": _is_text,
    "edgemem": _is_text,
}


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)[:_MOST_TEXT]
