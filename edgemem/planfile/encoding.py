"""Plan sets to bytes. Equal plan sets give equal bytes: maps are written in the order of their keys."""

from __future__ import annotations

from itertools import accumulate
from operator import index
from typing import TYPE_CHECKING

import flatbuffers
import numpy as np

from edgemem.errors import EdgememError, PlanFileError
from edgemem.planfile.conditions import check_plansets
from edgemem.planfile.container import wrap
from edgemem.planfile.schema import DEFAULTS, KINDS, PLAN_FILE, PLAN_SET, VALUE_TYPES, slots
from edgemem.planfile.streams import heap_requests, stream_of
from edgemem.planfile.versions import SEVERAL, least_version
from edgemem.plans import Settings
from edgemem.records.problem import check_fixed_places

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from edgemem.plans import OffsetPlan, OptionValue, PlanSet, SearchReport, SharedObjectsPlan
    from edgemem.records.problem import Problem
    from edgemem.targets import Target
    from edgemem.trace.cycle import Cycle
    from edgemem.trace.recording import Recording, Signature

__all__ = ["encode", "encode_all"]

_INT64 = np.iinfo(np.int64)


def encode(planset: PlanSet) -> bytes:
    """One plan set as bytes, for a model's metadata or a file of its own; `decode` gives all of it back.

    Raises PlanFileError as `encode_all`.
    """
    return encode_all((planset,))


def encode_all(plansets: Sequence[PlanSet]) -> bytes:
    """Plan sets as bytes, in this order.

    One at least, at most one with neither a recording nor a cycle, and no fingerprint twice.

    The file has the least version that can say all of it. Times and threads of traces are left out.

    Raises PlanFileError for what the format cannot hold (integers beyond int64, text that is no UTF-8, 2 GiB and more),
    for plans that contradict their records, and for a recording whose trace is not that of its records.
    """
    try:
        check_plansets(plansets)
        for planset in plansets:
            _check_made(planset)
        version = least_version(plansets)
        return wrap(_Writer(plansets, several=version >= SEVERAL).payload, version)
    # ValueError: surrogates that UTF-8 cannot hold, a kind that is none, rows of several lengths.
    except (EdgememError, flatbuffers.builder.BuilderSizeError, ValueError) as e:
        raise PlanFileError(f"these plans cannot be written: {e}") from None


def _check_made(p: PlanSet) -> None:
    """Raise PlanFileError or ModelError for parts that disagree, in ways that the bytes cannot show."""
    check_fixed_places(p.problem, lambda i: p.problem.names[i])
    if p.target is not None:
        from edgemem.planfile.target import target_from, target_maps  # plans of recordings have no target

        if target_from(target_maps(p.target)) != p.target:
            raise PlanFileError(f"target {p.target} does not survive as a table")
    if p.recording is not None:
        trace = p.recording.trace
        stream = stream_of(p.problem, heap_requests(trace, p.problem), len(trace))
        if not np.array_equal(stream, trace.events):
            raise PlanFileError("the records are not requests of the recorded trace")


class _Writer:
    """Writes children before their parents, as FlatBuffers are; `payload` is the result."""

    def __init__(self, plansets: Sequence[PlanSet], *, several: bool) -> None:
        self._builder = flatbuffers.Builder(sum(map(_estimate, plansets)))
        if several:
            file = self._table("PlanFile", plan_sets=self._tables(map(self._planset, plansets)))
            self._builder.Finish(file, PLAN_FILE)
        else:
            self._builder.Finish(self._planset(plansets[0]), PLAN_SET)
        self.payload = bytes(self._builder.Output())

    def _planset(self, p: PlanSet) -> int:
        shapes = dict(sorted(p.input_shapes.items()))
        best = p.claimed
        return self._table(
            "PlanSet",
            problem=self._problem(p.problem),
            naive=_int64(p.naive),
            offsets_bound=_int64(p.bounds.offsets),
            shared_objects_bound=_int64(p.bounds.shared_objects),
            offsets=self._tables(self._offset_plan(plan, best.offsets) for plan in p.offsets),
            shared_objects=self._tables(
                self._shared_objects_plan(plan, best.shared_objects) for plan in p.shared_objects
            ),
            **self._target(p.target),
            digest=self._string(p.digest),
            steps=self._strings(p.steps),
            unplanned=self._strings([tensor for tensor, _ in p.unplanned]),
            unplanned_reasons=self._strings([reason for _, reason in p.unplanned]),
            order=None if p.order is None else self._int64s(p.order),
            dims=self._values(p.dims),
            inputs=self._strings(list(shapes)),
            input_dims=self._int64s([d for shape in shapes.values() for d in shape]),
            input_ends=self._ends(shapes.values()),
            versions=self._values(p.versions),
            settings=None if p.settings == Settings() else self._settings(p.settings),
            recording=None if p.recording is None else self._recording(p.recording, p.problem),
            ranges=self._values({name: str(made) for name, made in p.ranges.items()}) if p.ranges else None,
            cycle=None if p.cycle is None else self._cycle(p.cycle),
        )

    def _problem(self, p: Problem) -> int:
        records = p.records
        listed = any(r.tensors for r in records)
        return self._table(
            "Problem",
            names=self._strings(p.names),
            first_op=self._int64s(p.first_op),
            last_op=self._int64s(p.last_op),
            rank=1 if p.extents is None else p.extents.shape[1],
            sizes=self._int64s(p.size if p.extents is None else p.extents.reshape(-1)),
            kinds=self._octets(bytes(KINDS.index(r.kind) for r in records)),
            tensors=self._strings([t for r in records for t in r.tensors]) if listed else None,
            tensor_ends=self._ends([r.tensors for r in records]) if listed else None,
            alignment=_int64(p.alignment),
            pinned=None if p.pinned is None else self._int64s(p.pinned),
            reserved=self._int64s([x for pair in p.reserved for x in pair]) if p.reserved else None,
            overlap=self._rows(p.overlap),
            within=self._rows(p.within),
            regions=None if p.regions is None else self._int64s(p.regions),
            traffic=None if p.traffic is None else self._int64s(p.traffic),
        )

    def _rows(self, relation: NDArray[np.int64] | None) -> int | None:
        return None if relation is None else self._int64s(relation.reshape(-1))

    def _offset_plan(self, p: OffsetPlan, bound: int) -> int:
        return self._table(
            "OffsetPlan",
            strategy=self._string(p.strategy),
            options=self._values(p.options),
            offsets=self._int64s(p.offsets),
            size=_int64(p.size),
            optimal=p.size == bound,
            search=self._search(p.search),
            regions=None if p.regions is None else self._int64s(p.regions),
            region_sizes=self._int64s(p.region_sizes) if p.region_sizes else None,
        )

    def _search(self, report: SearchReport | None) -> int | None:
        if report is None:
            return None
        return self._table(
            "Search",
            bound=_int64(report.bound),
            stopped=self._string(report.stopped),
            work=_int64(report.work),
            seed=-1 if report.seed is None else _int64(report.seed),
        )

    def _shared_objects_plan(self, p: SharedObjectsPlan, bound: int) -> int:
        rows = [o if isinstance(o, tuple) else (o,) for o in p.objects]
        return self._table(
            "SharedObjectsPlan",
            strategy=self._string(p.strategy),
            options=self._values(p.options),
            assignment=self._int64s(p.assignment),
            objects=self._int64s([x for row in rows for x in row]),
            size=_int64(p.size),
            optimal=p.size == bound,
            search=self._search(p.search),
        )

    def _target(self, target: Target | None) -> dict[str, int | None]:
        if target is None:
            return {}
        from edgemem.planfile.target import target_maps  # see above

        maps = target_maps(target)
        return {
            "target": self._values(maps.values),
            "regions": self._tables(map(self._values, maps.regions)),
            "pins": self._values(maps.pins) if maps.pins else None,
            "states": self._values(maps.states) if maps.states else None,
        }

    def _settings(self, s: Settings) -> int:
        return self._table(
            "Settings",
            strategies=self._strings(s.strategies),
            effort=None if s.effort is None else self._string(s.effort),
            seed=None if s.seed is None else _int64(s.seed),
            time_limit=None if s.time_limit is None else abs(float(s.time_limit)),  # -0.0 is 0.0
            threads=None if s.threads is None else _int64(s.threads),
            alignment=None if s.alignment is None else _int64(s.alignment),
        )

    def _recording(self, r: Recording, problem: Problem) -> int:
        heap = heap_requests(r.trace, problem)
        return self._table(
            "Recording",
            runtime=self._string(r.fingerprint.runtime),
            version=self._string(r.fingerprint.version),
            model=self._string(r.fingerprint.model),
            options=self._values(r.fingerprint.options),
            signature=self._signature(r.fingerprint.signature),
            events=len(r.trace),
            heap_events=self._int64s(heap.events),
            heap_sizes=self._int64s(heap.sizes),
            heap_ends=self._int64s(heap.ends) if (heap.ends >= 0).any() else None,
        )

    def _cycle(self, c: Cycle) -> int:
        return self._table(
            "Cycle",
            length=_int64(c.length),
            sizes=self._int64s(c.size),
            starts=self._int64s(c.start),
            ends=self._int64s(c.end),
            lanes=self._int64s(c.lane),
            sections=self._int64s(c.section),
            free_sections=self._int64s(c.free_section),
            dynamic=self._octets(c.is_dynamic.astype(np.uint8).tobytes()),
            names=self._strings([section.name for section in c.sections]),
            phases=self._int64s([section.phase for section in c.sections]),
            dynamic_sections=self._octets(bytes(section.is_dynamic for section in c.sections)),
            device=self._string(c.device),
        )

    def _signature(self, s: Signature) -> int:
        return self._table(
            "Signature",
            call=self._string(s.call),
            inputs=self._strings([name for name, _, _ in s.inputs]),
            types=self._strings([element_type for _, element_type, _ in s.inputs]),
            dims=self._int64s([d for _, _, shape in s.inputs for d in shape]),
            dim_ends=self._ends([shape for _, _, shape in s.inputs]),
            outputs=self._strings(s.outputs),
            bound=bool(s.bound),
            shared=bool(s.shared),
        )

    def _values(self, values: Mapping[str, OptionValue]) -> int:
        keys = sorted(values)
        for key in keys:
            if type(values[key]) not in VALUE_TYPES:
                raise PlanFileError(f"{key!r} is {values[key]!r}; there are int, bool, str and float")
        entries = [values[key] for key in keys]
        reals = [e if isinstance(e, float) else 0.0 for e in entries] if float in map(type, entries) else None
        return self._table(
            "Values",
            keys=self._strings(keys),
            types=self._octets(bytes(VALUE_TYPES.index(type(e)) for e in entries)),
            integers=self._int64s([0 if isinstance(e, str | float) else int(e) for e in entries]),
            texts=self._strings([e if isinstance(e, str) else "" for e in entries]),
            reals=None if reals is None else int(self._builder.CreateNumpyVector(np.array(reals))),
        )

    def _strings(self, strings: Sequence[str]) -> int:
        pieces = [s.encode() for s in strings]
        return self._table("Strings", text=self._octets(b"".join(pieces)), ends=self._ends(pieces))

    def _string(self, text: str) -> int:
        return int(self._builder.CreateString(text))

    def _ends(self, groups: Iterable[Sequence[object]]) -> int:
        return self._int64s(list(accumulate(map(len, groups))))

    def _int64s(self, values: Sequence[int] | NDArray[np.int64]) -> int:
        array = np.asarray(values) if len(values) else np.zeros(0, np.int64)
        if array.ndim != 1 or array.dtype.kind not in "iu" or int(array.max(initial=0)) > _INT64.max:
            raise PlanFileError(f"a column of {array.dtype} is not integers within int64")
        return int(self._builder.CreateNumpyVector(array.astype(np.int64)))

    def _octets(self, data: bytes) -> int:
        return int(self._builder.CreateByteVector(data))

    def _tables(self, tables: Iterable[int | None]) -> int:
        places = list(tables)
        self._builder.StartVector(4, len(places), 4)
        for place in reversed(places):
            self._builder.PrependUOffsetTRelative(place)
        return int(self._builder.EndVector())

    def _table(self, name: str, **fields: float | None) -> int:
        """A table of the schema; None is an absent field."""
        builder, places, defaults = self._builder, slots(name), DEFAULTS.get(name, {})
        add_number = {int: builder.PrependInt64Slot, bool: builder.PrependBoolSlot, float: builder.PrependFloat64Slot}
        builder.StartObject(len(places))
        for field, value in fields.items():
            if value is None:
                continue
            if field in defaults:
                add_number[type(defaults[field])](places[field], value, defaults[field])
            else:
                builder.PrependUOffsetTRelativeSlot(places[field], value, 0)
        return int(builder.EndObject())


def _int64(value: int) -> int:
    if not _INT64.min <= index(value) <= _INT64.max:
        raise PlanFileError(f"{value} is beyond int64")
    return index(value)


def _estimate(planset: PlanSet) -> int:
    """Roughly the bytes of the columns, so that the builder's buffer need not grow often."""
    return 1024 + len(planset.problem) * (64 + 8 * (len(planset.offsets) + len(planset.shared_objects)))
