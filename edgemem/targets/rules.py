"""The rules of one kind of memory, and the regions it consists of."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from edgemem.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Inputs", "Region", "Target"]

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
    """The rules of one kind of memory. Raises ModelError without a region, and for a pin at a negative offset.

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
        sub_byte: elements narrower than a byte (int4, int2) are `packed`, with the last byte filled up, or `unpacked`,
            a byte each.
        scratch: operators' workspace is not in the plan (`unknown`), or read from the installed LiteRT (`litert`).
        kernels: the kernel profile whose operators may write over an input that they have not read to the end, at a
            distance (`edgemem.model.overlap`). With a profile, of `aliasing` only the views hold: which result may lie
            on an input is up to the profile. `none`: no operator may but those that `aliasing` names.
        slots: slices and pieces of concatenations along the outermost dimension may lie inside what they are cut from
            or put into, so that the operator copies bytes onto themselves.
        texels: sizes are texel extents of four channels, for shared objects on textures.
        regions: where the arena goes, in order of preference; one or more.
        pins: tensor -> offset in bytes from the start of the first region, where the tensor must be.
        states: graph input -> the value that is this input in the next run (a KV cache); see `match_states`. Both are
            one record, which is in the arena for the whole run whatever `inputs` and `outputs` say.
    """

    name: str
    alignment: int = 64
    inputs: Inputs = "outside"
    outputs: Literal["outside", "to_end"] = "outside"
    unread: Literal["one_op", "to_end"] = "one_op"
    variables: Literal["outside", "whole_run"] = "outside"
    aliasing: str = "elementwise"
    bodies: Literal["inline", "outside"] = "inline"
    sub_byte: Literal["packed", "unpacked"] = "packed"
    scratch: Literal["unknown", "litert"] = "unknown"
    kernels: str = "none"
    slots: bool = False
    texels: bool = False
    regions: tuple[Region, ...] = (Region("arena"),)
    pins: Mapping[str, int] = field(default_factory=dict, hash=False)
    states: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        """Copies the mappings, so that a later change of them does not change the target."""
        if not self.regions:
            raise ModelError(f"target {self.name!r} has no region; give one or more")
        object.__setattr__(self, "regions", tuple(self.regions))
        object.__setattr__(self, "pins", dict(self.pins))
        object.__setattr__(self, "states", dict(self.states))
        below = next((tensor for tensor, offset in self.pins.items() if offset < 0), None)
        if below is not None:
            raise ModelError(f"tensor {below!r} is pinned at {self.pins[below]}; an offset is 0 or more")

    def changed(self, *, kernels: str | None = None, slots: bool = False) -> Target:
        """The target with another kernel profile (None keeps its own), and with slots if they are asked for.

        Raises ModelError where the target's memory cannot be shared so.
        """
        if self.texels and (slots or kernels not in (None, "none")):
            raise ModelError(f"the target {self.name!r} keeps tensors as textures, which cannot lie inside each other")
        if self.scratch == "litert" and kernels not in (None, "none"):
            raise ModelError(
                f"no kernel profile holds for the kernels of the target {self.name!r}: they read their inputs again; "
                "plan without --overlap, or for TensorFlow Lite Micro (--target tflm)"
            )
        return replace(self, kernels=self.kernels if kernels is None else kernels, slots=self.slots or slots)

    @property
    def region(self) -> Region:
        """The first region."""
        return self.regions[0]
