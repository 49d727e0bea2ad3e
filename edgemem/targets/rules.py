"""The rules of one kind of memory, and the regions it consists of."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from edgemem.errors import ModelError
from edgemem.system.text import short_repr

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Inputs", "Region", "Target"]

_TEXEL = 4  # elements
_LARGEST_SIDE = 2**20  # of a texture: a texel's coordinates and an extent's product are far from int64's end

Inputs: TypeAlias = Literal["outside", "until_last_use", "whole_run"]


@dataclass(frozen=True, slots=True)
class Region:
    """A piece of memory with a name.

    Attributes:
        capacity: bytes, or None for as much as it takes.
        reserved: ranges of bytes, [begin, end) from its start, that no offset plan may use.
        cost: of a byte that an operator reads or writes here, in any unit that all regions share.
        alignment: of every offset here where it is larger than the target's; bytes, a power of two.
    """

    name: str
    capacity: int | None = None
    reserved: tuple[tuple[int, int], ...] = ()
    cost: int = 1
    alignment: int = 1


@dataclass(frozen=True, slots=True)
class Target:
    """The rules of one kind of memory.

    Raises ModelError without a region, for a pin at a negative offset, and for rules that exclude each other.

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
        pointer_bytes: of the device, 4 or 8: how large TensorFlow Lite Micro's structures are there, in the tail of
            its arena.
        scratch: operators' workspace is not in the plan (`unknown`), is read from the installed LiteRT (`litert`), or
            is what TensorFlow Lite Micro's reference kernels ask for, where that puts it (`tflm`).
        kernels: the kernel profile whose operators may write over an input that they have not read to the end, at a
            distance (`edgemem.model.overlap`). With a profile, of `aliasing` only the views hold: which result may lie
            on an input is up to the profile. `none`: no operator may but those that `aliasing` names.
        slots: slices and pieces of concatenations along the outermost dimension may lie inside what they are cut from
            or put into, so that the operator copies bytes onto themselves.
        texels: sizes are texel extents of four channels, for shared objects on textures.
        storage: `plain` is a dense tensor. With `phwc4` every tensor, whatever its dtype and its rank, is kept as GPU
            kernels do (`edgemem.model.texture_layout`): floats, the channels in slices of four.
        precision: of an element with `phwc4`; fp32 takes 4 bytes, fp16 takes 2.
        texel_row: with `phwc4` in textures, 0 for two dimensions; else texels follow each other in rows of so many.
        layer_rows: 0, or all tensors are in one array of textures, each in as many layers of so many rows as it takes;
            then the plan is of offsets, in bytes.
        texture_side: the largest width and height of a texture.
        binding: the most bytes that one tensor may take, 0 for any number.
        regions: where tensors go; one or more. Of several, each tensor is in the one where its bytes cost least, as far
            as capacities allow, and in the first of those that cost the same.
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
    pointer_bytes: int = 4
    scratch: Literal["unknown", "litert", "tflm"] = "unknown"
    kernels: str = "none"
    slots: bool = False
    texels: bool = False
    storage: Literal["plain", "phwc4"] = "plain"
    precision: Literal["fp32", "fp16"] = "fp32"
    texel_row: int = 0
    layer_rows: int = 0
    texture_side: int = 8192
    binding: int = 0
    regions: tuple[Region, ...] = (Region("arena"),)
    pins: Mapping[str, int] = field(default_factory=dict, hash=False)
    states: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        """Copies the mappings, so that a later change of them does not change the target; raises the alignment."""
        if not self.regions:
            raise ModelError(f"target {self.name!r} has no region; give one or more")
        object.__setattr__(self, "regions", tuple(self.regions))
        object.__setattr__(self, "alignment", max(self.alignment, min(r.alignment for r in self.regions)))
        object.__setattr__(self, "pins", dict(self.pins))
        object.__setattr__(self, "states", dict(self.states))
        below = next((tensor for tensor, offset in self.pins.items() if offset < 0), None)
        if below is not None:
            raise ModelError(f"tensor {below!r} is pinned at {self.pins[below]}; an offset is 0 or more")
        why = _conflict(self)
        if why:
            raise ModelError(f"target {self.name!r}: {why}")

    def changed(self, *, kernels: str | None = None, slots: bool = False) -> Target:
        """The target with another kernel profile (None keeps its own), and with slots if they are asked for.

        LiteRT lays no tensor inside another one, so that its target stays without slots.

        Raises ModelError where the target's memory cannot be shared so.
        """
        if not self.is_dense and (slots or kernels not in (None, "none")):
            kept = "as textures" if self.texels else "in slices of four channels"
            raise ModelError(f"the target {self.name!r} keeps tensors {kept}, which cannot lie inside each other")
        if self.scratch == "litert" and kernels not in (None, "none"):
            raise ModelError(
                f"no kernel profile holds for the kernels of the target {self.name!r}: they read their inputs again; "
                "leave --kernels out, or plan for TensorFlow Lite Micro (--target tflm)"
            )
        slots = self.slots or (slots and self.scratch != "litert")
        return replace(self, kernels=self.kernels if kernels is None else kernels, slots=slots)

    @property
    def is_dense(self) -> bool:
        """Whether tensors are kept as dense bytes, which is what runtimes on CPUs take; not so on GPUs."""
        return not self.texels and self.storage == "plain"

    @property
    def kept(self) -> str:
        """For messages: how tensors are kept where they are not dense."""
        return "counts texels, not bytes" if self.texels else "keeps tensors in slices of four channels"

    @property
    def layer_bytes(self) -> int:
        """Of a layer of the array of textures; 0 without one."""
        return self.texel_row * self.layer_rows * _TEXEL * self.element_bytes

    @property
    def element_bytes(self) -> int:
        """Of an element with the storage `phwc4`."""
        return 2 if self.precision == "fp16" else 4

    @property
    def region(self) -> Region:
        """The first region."""
        return self.regions[0]

    @property
    def has_choice(self) -> bool:
        """Whether each tensor may lie in any of several regions: textures and TensorFlow Lite Micro have one arena."""
        return len(self.regions) > 1 and not self.texels and self.scratch != "tflm"


def _conflict(target: Target) -> str:
    """What about a target's rules cannot be; "" if nothing."""
    if target.pointer_bytes not in (4, 8):
        return f"pointer_bytes is 4 or 8, not {short_repr(target.pointer_bytes)}"
    if not 1 <= target.texture_side <= _LARGEST_SIDE:
        return f"texture_side {short_repr(target.texture_side)} is not 1 to {_LARGEST_SIDE}"
    if not 0 <= target.texel_row <= target.texture_side:
        return f"texel_row {short_repr(target.texel_row)} is not 0 to texture_side, {target.texture_side}"
    if not 0 <= target.binding < 2**63:
        return f"binding {short_repr(target.binding)} is no number of bytes"
    if target.storage == "plain":
        only = {
            "precision": target.precision != "fp32",
            "texel_row": target.texel_row,
            "layer_rows": target.layer_rows,
        }
        given = [name for name, is_given in only.items() if is_given]
        return f'{given[0]} is for storage = "phwc4"' if given else ""
    if target.kernels != "none" or target.slots:
        return "tensors in slices of four channels cannot lie inside each other; leave kernels and slots out"
    if target.bodies != "outside":
        return 'operators that run bodies do not run on a GPU; give bodies = "outside" with storage = "phwc4"'
    if target.texel_row and not target.texels and not target.layer_rows:
        return "texel_row is for textures (texels = true, or layer_rows)"
    is_odd = target.texels or not target.texel_row or not 0 < target.layer_rows <= target.texture_side
    if target.layer_rows and is_odd:
        return "layer_rows is 1 to texture_side, and goes with texel_row and without texels"
    in_textures = target.texels or target.layer_rows
    fitting = ("none", "gpu-views") if in_textures else ("none", "gpu-views", "gpu")
    if target.aliasing not in fitting:
        what = "textures" if in_textures else "tensors"
        return f"the alias rules of {what} in slices of four channels are {', '.join(fitting)}, not {target.aliasing!r}"
    return ""
