"""The place of each tensor on the GPU: by a plan, or each in memory of its own; and whether a device has it."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Literal

from edgemem.errors import InvalidPlanError, UnsupportedError
from edgemem.model.texture_layout import SLICE, stored
from edgemem.plans import OffsetPlan
from edgemem.records.textures import TexelPlace, texel_place
from edgemem.report.sizes import size_text
from edgemem.runtime.webgpu.size_constants import Reach

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from edgemem.model.graph import Graph
    from edgemem.model.texture_layout import Stored
    from edgemem.plans import SharedObjectsPlan
    from edgemem.proof import Proved
    from edgemem.records.problem import Size
    from edgemem.runtime.webgpu.profile import GpuProfile
    from edgemem.targets import Target

__all__ = ["GpuLayout", "Place", "check_profile", "chosen_plan", "planned_places", "separate_places"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tensor is.

    Attributes:
        piece: index of the buffer or texture.
        offset: bytes from the beginning of the buffer, or of the array of textures; 0 in a texture.
        size: bytes of all its texels; in an array of its layers.
        stored: its dimensions.
        texels: how it lies in a texture; None in a buffer.
    """

    piece: int
    offset: int
    size: int
    stored: Stored
    texels: TexelPlace | None = None

    @property
    def key(self) -> tuple[int, int]:
        """Equal for tensors that begin at one place."""
        return self.piece, self.offset


@dataclass(frozen=True, slots=True)
class GpuLayout:
    """The memory of a graph's tensors.

    Attributes:
        pieces: each is a buffer (bytes), a texture (its extent) or an array of textures (extent and layers).
        places: by tensor index in the graph.
        texel_bytes: of four channels.
    """

    pieces: tuple[Size, ...]
    places: Mapping[int, Place]
    texel_bytes: int

    @property
    def is_texture(self) -> bool:
        """Whether the pieces are textures."""
        return any(isinstance(piece, tuple) for piece in self.pieces)

    @property
    def precision(self) -> Literal["fp32", "fp16"]:
        """Of an element."""
        return "fp32" if self.texel_bytes == SLICE * 4 else "fp16"

    @property
    def bytes(self) -> int:
        """Of all pieces together."""
        return sum(p if isinstance(p, int) else prod(p) * self.texel_bytes for p in self.pieces)

    def reach(self, tensor: int) -> Reach:
        """How a kernel reaches a tensor."""
        place = self.places[tensor]
        if place.texels is None:
            return Reach("buffer", place.stored, place.key)
        texels = place.texels
        rows = texels.height if texels.layers else 0
        return Reach("texture", place.stored, place.key, linear=texels.linear, row=texels.row, layer_rows=rows)

    def first_layer(self, place: Place) -> int:
        """The first layer of an array of textures that a tensor is in; 0 in a texture."""
        if place.texels is None or not place.texels.layers:
            return 0
        return place.offset // (place.texels.width * place.texels.height * self.texel_bytes)


def chosen_plan(proved: Proved) -> OffsetPlan | SharedObjectsPlan:
    """The plan of a set that runs: the smallest arena, or the smallest textures where sizes are texels.

    Raises InvalidPlanError if there is none, if it was proved for no graph, or is in several regions.
    """
    planset = proved.planset
    target = planset.target
    is_texture = target is not None and target.texels
    best = planset.best_shared_objects if is_texture else planset.best_offsets
    if not proved.graph:
        raise InvalidPlanError("the plan is proved for its usage records, and for no graph; plan the model again")
    if best is None:
        raise InvalidPlanError(
            f"the plan has no {'shared objects' if is_texture else 'arena'}; plan again with `--strategy auto`"
        )
    if not is_texture and planset.has_regions:
        raise InvalidPlanError("the plan lies in several regions, and a GPU has one arena; plan for gpu-buffer")
    return best


def planned_places(proved: Proved, graph: Graph, needed: Iterable[int]) -> GpuLayout:
    """The places that a plan gives.

    Args:
        proved: the plan of this graph.
        graph: the graph in the order that is planned for.
        needed: the tensors that must have a place.

    Raises InvalidPlanError if one has none, or it is not within its place; and as `chosen_plan`.
    """
    plan = chosen_plan(proved)
    planset = proved.planset
    target = planset.target
    assert target is not None
    texel_bytes = SLICE * target.element_bytes
    is_arena = isinstance(plan, OffsetPlan)
    at = (plan.offsets if isinstance(plan, OffsetPlan) else plan.assignment).tolist()
    pieces: tuple[Size, ...] = (_arena(plan.size, target),) if isinstance(plan, OffsetPlan) else tuple(plan.objects)
    numbers = {t.name: i for i, t in enumerate(graph.tensors)}
    places: dict[int, Place] = {}
    for record, where in zip(planset.problem.records, at, strict=True):
        for name in record.tensors or (record.name,):
            if name not in numbers:
                raise InvalidPlanError(f"the plan has a place for {name!r}, which the graph has not; plan again")
            number = numbers[name]
            dims = stored(graph.tensors[number].shape, graph.layout)
            place = _place(dims, *((0, int(where)) if is_arena else (int(where), 0)), target)
            if number in places or not _holds(pieces, place):
                raise InvalidPlanError(f"the plan has no one place for {name!r} that it fits in; plan again")
            places[number] = place
    for number in needed:
        if number not in places:
            raise InvalidPlanError(f"the plan has no place for {graph.tensors[number].name!r}; plan again")
    return GpuLayout(pieces, places, texel_bytes)


def separate_places(target: Target, graph: Graph, needed: Iterable[int]) -> GpuLayout:
    """Each tensor in a buffer or texture of its own, of its size: nothing can overwrite anything."""
    texel_bytes = SLICE * target.element_bytes
    pieces: list[Size] = []
    places: dict[int, Place] = {}
    for number in needed:
        dims = stored(graph.tensors[number].shape, graph.layout)
        place = _place(dims, len(pieces), 0, target)
        texels = place.texels if target.texels else None
        pieces.append(_arena(place.size, target) if texels is None else (texels.width, texels.height))
        places[number] = place
    return GpuLayout(tuple(pieces), places, texel_bytes)


def check_profile(layout: GpuLayout, graph: Graph, profile: GpuProfile, *, is_planned: bool = True) -> None:
    """Raise before anything is allocated if a device of a profile has no such places.

    Raises:
        UnsupportedError: a tensor or the arena is too large; names the tensor.
        InvalidPlanError: an offset is no multiple of what the device asks for.
    """
    more = "" if profile.name != "portable" else ", or run with the adapter's own limits (--profile adapter)"
    for number, place in layout.places.items():
        name = graph.tensors[number].name
        if place.texels is None and place.size > profile.binding:
            raise UnsupportedError(
                f"tensor {name!r} has {size_text(place.size)}, and a shader of the profile {profile.name!r} reaches "
                f"{size_text(profile.binding)}; plan for gpu-texture or with half the precision (gpu-buffer-fp16){more}"
            )
        if place.texels is None and place.offset % profile.alignment:
            raise InvalidPlanError(
                f"the plan puts {name!r} at {place.offset}, and the profile {profile.name!r} takes multiples of "
                f"{profile.alignment}; plan again with --alignment {profile.alignment}{more}"
            )
        if place.texels is not None and max(place.texels.width, place.texels.height) > profile.texture_side:
            raise UnsupportedError(
                f"tensor {name!r} takes {place.texels.width} x {place.texels.height} texels, and textures of the "
                f"profile {profile.name!r} have sides of {profile.texture_side}; plan for gpu-texture-linear or "
                f"gpu-buffer{more}"
            )
    for number, piece in enumerate(layout.pieces):
        if isinstance(piece, int) and piece > profile.buffer:
            what = "the arena" if is_planned else f"tensor {_first_in(layout, graph, number)!r}"
            raise UnsupportedError(
                f"{what} has {size_text(piece)}, and a buffer of the profile {profile.name!r} "
                f"{size_text(profile.buffer)}; plan with half the precision (gpu-buffer-fp16) or for gpu-texture{more}"
            )
        if isinstance(piece, tuple) and len(piece) == 3 and piece[2] > profile.layers:
            raise UnsupportedError(
                f"the plan takes {piece[2]} layers of textures, and the profile {profile.name!r} has {profile.layers}; "
                f"plan for gpu-texture-linear, or for layers of more rows{more}"
            )
        if isinstance(piece, tuple) and max(piece[:2]) > profile.texture_side:
            raise UnsupportedError(
                f"texture {number} of the plan, with {_first_in(layout, graph, number)!r}, has the extent "
                f"{piece[0]} x {piece[1]}, and the profile {profile.name!r} has sides of {profile.texture_side}; "
                f"plan for gpu-texture-linear or gpu-buffer{more}"
            )


def _holds(pieces: Sequence[Size], place: Place) -> bool:
    """Whether a place is inside its buffer or texture."""
    if not 0 <= place.piece < len(pieces):
        return False
    piece = pieces[place.piece]
    if place.texels is None:
        return isinstance(piece, int) and 0 <= place.offset <= piece - place.size
    if isinstance(piece, int):
        return False
    if len(piece) == 3 or place.texels.layers:
        layer = place.size // max(place.texels.layers, 1)
        is_whole = place.offset >= 0 and place.offset % layer == 0
        return is_whole and len(piece) == 3 and place.offset + place.size <= layer * piece[2]
    return place.texels.width <= piece[0] and place.texels.height <= piece[1]


def _first_in(layout: GpuLayout, graph: Graph, piece: int) -> str:
    return next((graph.tensors[n].name for n, place in layout.places.items() if place.piece == piece), "nothing")


def _arena(size: int, target: Target) -> Size:
    """The arena of a plan: bytes of a buffer, or an array of textures."""
    if not target.layer_rows:
        return size
    return target.texel_row, target.layer_rows, max(-(-size // target.layer_bytes), 1)


def _place(dims: Stored, piece: int, offset: int, target: Target) -> Place:
    """The place in a texture, in layers of an array of them, or in a buffer, as the target has it."""
    size = dims.texels * SLICE * target.element_bytes
    if not target.texels and not target.layer_rows:
        return Place(piece, offset, size, dims)
    texels = texel_place(dims, target)
    return Place(piece, offset, size if target.texels else texels.layers * target.layer_bytes, dims, texels)
