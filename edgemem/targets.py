"""Targets: the rules of the memory that a plan is made for. Built-in ones, and the user's own from TOML."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, TypeAlias

from edgemem.errors import ModelError, PlanError
from edgemem.model.aliasing import RULES

__all__ = ["BUILT_IN", "Inputs", "Region", "Target", "parse_size", "target"]

Inputs: TypeAlias = Literal["outside", "until_last_use", "whole_run"]


@dataclass(frozen=True, slots=True)
class Region:
    """A piece of memory with a name.

    Attributes:
        capacity: bytes, or None for as much as it takes.
        reserved: ranges of bytes, [begin, end) from its start, that no offset plan may use.
    """

    name: str
    capacity: int | None = None
    reserved: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Target:
    """The rules of one kind of memory.

    Attributes:
        name: what `--target` calls it.
        alignment: of every offset in the arena, and of the arena itself; bytes, a power of two.
        inputs: graph inputs are not in the arena (`outside`), live in it `until_last_use`, or keep their place for
            the `whole_run`.
        outputs: graph outputs are `outside`, or live in the arena from their operator to the end of the run.
        unread: a result that nothing reads stays during its operator (`one_op`), or `to_end`, never released.
        variables: state between runs is `outside`, or in the arena for the whole run.
        aliasing: the name of the alias rules (see `edgemem.model.aliasing.RULES`).
        bodies: `inline` plans the tensors of branches and loop bodies with the rest; `outside` leaves them to the
            runtime.
        scratch: operators' workspace is not in the plan (`unknown`), or read from the installed LiteRT (`litert`).
        texels: sizes are texel extents of four channels, for shared objects on textures.
        region: where the arena goes.
    """

    name: str
    alignment: int = 64
    inputs: Inputs = "outside"
    outputs: Literal["outside", "to_end"] = "outside"
    unread: Literal["one_op", "to_end"] = "one_op"
    variables: Literal["outside", "whole_run"] = "outside"
    aliasing: str = "elementwise"
    bodies: Literal["inline", "outside"] = "inline"
    scratch: Literal["unknown", "litert"] = "unknown"
    texels: bool = False
    region: Region = Region("arena")


BUILT_IN: dict[str, Target] = {
    t.name: t
    for t in (
        Target("generic"),
        Target("onnxruntime"),
        Target(
            "litert",
            inputs="whole_run",
            outputs="to_end",
            unread="to_end",
            variables="whole_run",
            aliasing="litert",
            bodies="outside",
            scratch="litert",
        ),
        Target("tflm", alignment=16, inputs="until_last_use", outputs="to_end"),
        Target("gpu-buffer", alignment=256),
        Target("gpu-texture", alignment=1, aliasing="none", texels=True),
    )
}


def target(name: str) -> Target:
    """A built-in target by name, or the user's own from a TOML file.

    The file has the attributes of `Target` as keys (those not given are as in `generic`), and at most one
    `[[region]]` with `name`, `capacity` ("256KiB" or bytes) and `reserved` (["0..4KiB"]). Raises ModelError for a file
    that cannot be read or has a key or value that is none of these.
    """
    if name in BUILT_IN:
        return BUILT_IN[name]
    path = Path(name)
    if path.suffix != ".toml":
        raise ModelError(f"no target {name!r}; there are {', '.join(BUILT_IN)}, or the name of a .toml file")
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as e:
        raise ModelError(f"cannot read target {path}: {e}") from None
    return from_table({"name": path.stem, **table}, where=str(path))


def from_table(table: dict[str, Any], *, where: str) -> Target:
    """A target from plain data, as TOML and plan files hold it. Raises ModelError naming what is wrong."""
    fields = dict(table)
    regions = fields.pop("region", [])
    if not isinstance(regions, list) or len(regions) > 1:
        raise ModelError(f"{where}: give one [[region]]; several are not supported yet")
    known = {f.name: f for f in dataclasses.fields(Target)}
    for key, value in fields.items():
        if key not in known or key == "region":
            raise ModelError(f"{where}: unknown key {key!r}; there are {', '.join(k for k in known)}")
        default = getattr(BUILT_IN["generic"], key)
        choices = _CHOICES.get(key)
        if type(value) is not type(default) or (choices and value not in choices):
            expected = f"one of {', '.join(choices)}" if choices else type(default).__name__
            raise ModelError(f"{where}: {key} is {expected}, not {value!r}")
    alignment = fields.get("alignment", 64)
    if alignment < 1 or alignment & (alignment - 1):
        raise ModelError(f"{where}: alignment {alignment} is not a power of two")
    for region in regions:
        if not isinstance(region, dict) or set(region) - {"name", "capacity", "reserved"}:
            raise ModelError(f"{where}: a region has a name, a capacity, and reserved ranges")
        capacity = region.get("capacity")
        fields["region"] = Region(
            str(region.get("name", "arena")),
            None if capacity is None else parse_size(str(capacity)),
            _ranges(region.get("reserved", []), where),
        )
    return Target(**fields)


def to_table(target: Target) -> dict[str, Any]:
    """The target as plain data; `from_table` reads it back."""
    table = dataclasses.asdict(target)
    region = {k: v for k, v in table.pop("region").items() if v is not None and k != "reserved"}
    if target.region.reserved:
        region["reserved"] = [f"{begin}..{end}" for begin, end in target.region.reserved]
    return {**table, "region": [region]}


def _ranges(listed: object, where: str) -> tuple[tuple[int, int], ...]:
    """Ranges of bytes from texts such as "64KiB..65KiB"."""
    if not isinstance(listed, list):
        raise ModelError(f'{where}: reserved is a list of ranges such as "0..4KiB", not {listed!r}')
    ranges = []
    for text in listed:
        begin, dots, end = str(text).partition("..")
        try:
            low, high = parse_size(begin), parse_size(end)
        except PlanError as e:
            raise ModelError(f'{where}: reserved {text!r} is no range such as "0..4KiB": {e}') from None
        if not dots or high < low or high > _MOST:
            raise ModelError(f"{where}: reserved {text!r} is no range of bytes within int64")
        ranges.append((low, high))
    return tuple(ranges)


_CHOICES: dict[str, tuple[str, ...]] = {
    "inputs": ("outside", "until_last_use", "whole_run"),
    "outputs": ("outside", "to_end"),
    "unread": ("one_op", "to_end"),
    "variables": ("outside", "whole_run"),
    "aliasing": tuple(RULES),
    "bodies": ("inline", "outside"),
    "scratch": ("unknown", "litert"),
}

_MOST = 2**63 - 1
_UNITS = {"": 1, "b": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "kb": 10**3, "mb": 10**6, "gb": 10**9}


def parse_size(text: str) -> int:
    """Bytes from "262144", "256KiB", "1.5 MiB" or "2MB" (KiB is 1024, kB is 1000). Raises PlanError otherwise."""
    match = re.fullmatch(r"\s*(\d{1,19}(?:\.\d{1,18})?)\s*([a-z]*)\s*", text.lower())
    if not match or match[2] not in _UNITS:
        raise PlanError(f"{text!r} is no size; write bytes, or KiB, MiB, GiB, kB, MB, GB after a number")
    return int(Decimal(match[1]) * _UNITS[match[2]])
