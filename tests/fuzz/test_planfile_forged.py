"""Plan files made to do harm, each with a right checksum: `decode` refuses them, in little time and memory."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np
import pytest

from edgemem.errors import PlanFileError
from edgemem.planfile import decode
from tests.forge import PEAK_FLOOR, PEAK_RATIO, Forge, peak_of, sealed

if TYPE_CHECKING:
    from collections.abc import Callable


def one_plan_many_times(f: Forge) -> bytes:
    plan = f.table("OffsetPlan", Strategy=f.string("s"), Offsets=f.int64s([]))
    return f.finish(Offsets=f.offsets([plan] * 5000))


def one_column_in_many_plans(f: Forge) -> bytes:
    problem, column, name = f.records(2000), f.int64s([0] * 2000), f.string("s")
    plans = [f.table("OffsetPlan", Strategy=name, Offsets=column) for _ in range(500)]
    return f.finish(Problem=problem, Offsets=f.offsets(plans))


def one_strategy_in_many_plans(f: Forge) -> bytes:
    name = f.string("s" * 20_000)
    plans = [f.table("OffsetPlan", Strategy=name, Offsets=f.int64s([])) for _ in range(500)]
    return f.finish(Offsets=f.offsets(plans))


def one_map_in_many_plans(f: Forge) -> bytes:
    keys = [b"%05d" % i for i in range(2000)]
    options = f.table(
        "Values",
        Keys=f.strings(keys),
        Types=f.octets(bytes(2000)),
        Integers=f.int64s([0] * 2000),
        Texts=f.strings([b""] * 2000),
    )
    plans = [f.table("OffsetPlan", Strategy=f.string(""), Offsets=f.int64s([]), Options=options) for _ in range(500)]
    return f.finish(Offsets=f.offsets(plans))


def one_text_in_two_columns(f: Forge) -> bytes:
    text, ends = f.octets(b"x" * 50_000), f.int64s([50_000])
    columns = [f.table("Strings", Text=text, Ends=ends) for _ in range(3)]
    return f.finish(Steps=columns[0], Unplanned=columns[1], UnplannedReasons=columns[2])


@pytest.mark.parametrize(
    "attack",
    [
        one_plan_many_times,
        one_column_in_many_plans,
        one_strategy_in_many_plans,
        one_map_in_many_plans,
        one_text_in_two_columns,
    ],
)
def test_contents_count_each_time_they_are_used(attack: Callable[[Forge], bytes]) -> None:
    data = attack(Forge())
    with pytest.raises(PlanFileError, match="used more than once"):
        decode(data)
    assert peak_of(data) <= PEAK_RATIO * len(data) + PEAK_FLOOR


def many_small_plans(f: Forge) -> bytes:
    plans = [f.table("OffsetPlan", Strategy=f.string(""), Offsets=f.int64s([])) for _ in range(3000)]
    return f.finish(Offsets=f.offsets(plans))


def many_small_object_plans(f: Forge) -> bytes:
    plans = [
        f.table("SharedObjectsPlan", Strategy=f.string("é"), Assignment=f.int64s([]), Objects=f.int64s([300]))
        for _ in range(3000)
    ]
    return f.finish(SharedObjects=f.offsets(plans))


def many_records(f: Forge) -> bytes:
    return f.finish(Problem=f.records(20_000))


def many_steps(f: Forge) -> bytes:
    return f.finish(Steps=f.strings(["é".encode()] * 20_000))


def many_dims(f: Forge) -> bytes:
    keys = sorted(b"%04x" % i for i in range(20_000))
    dims = f.table(
        "Values",
        Keys=f.strings(keys),
        Types=f.octets(bytes(20_000)),
        Integers=f.int64s(range(1000, 21_000)),
        Texts=f.strings([b""] * 20_000),
    )
    return f.finish(Dims=dims)


def many_input_shapes(f: Forge) -> bytes:
    names = f.strings(sorted(b"%04x" % i for i in range(20_000)))
    dims, ends = f.int64s(range(1000, 21_000)), f.int64s(range(1, 20_001))
    return f.finish(Inputs=names, InputDims=dims, InputEnds=ends)


def long_order(f: Forge) -> bytes:
    return f.finish(Order=f.int64s(range(50_000)))


@pytest.mark.full
@pytest.mark.parametrize(
    "dense",
    [many_small_plans, many_small_object_plans, many_records, many_steps, many_dims, many_input_shapes, long_order],
)
def test_the_densest_contents_stay_within_memory(dense: Callable[[Forge], bytes]) -> None:
    data = dense(Forge())
    decode(data)
    assert peak_of(data) <= PEAK_RATIO * len(data) + PEAK_FLOOR


def digest_and_order() -> bytearray:
    forge = Forge()
    return bytearray(forge.finish(Digest=forge.string("00ff"), Order=forge.int64s([1, 0]))[16:])


def places(payload: bytearray) -> dict[str, int]:
    """Where the root table and two of its fields are, found without the reader under test."""
    table = struct.unpack_from("<I", payload)[0]
    vtable = table - struct.unpack_from("<i", payload, table)[0]
    digest = table + struct.unpack_from("<H", payload, vtable + 4 + 2 * 8)[0]
    order = table + struct.unpack_from("<H", payload, vtable + 4 + 2 * 12)[0]
    return {
        "table": table,
        "vtable": vtable,
        "digest": digest,
        "digest_length": digest + struct.unpack_from("<I", payload, digest)[0],
        "order": order,
        "order_length": order + struct.unpack_from("<I", payload, order)[0],
    }


@pytest.mark.parametrize(
    ("place", "shift", "form", "value", "message"),
    [
        ("order", 0, "<I", 0, "points into itself"),
        ("order", 0, "<I", 0xFFFFFFFC, "outside of the"),
        ("order", 0, "<I", 0x80000000, "outside of the"),
        ("order_length", 0, "<I", 0xFFFFFFFF, "outside of the"),
        ("order_length", 0, "<I", 0x20000000, "outside of the"),  # times 8 is 0 in 32 bits
        ("digest_length", 0, "<I", 0xFFFFFFFF, "outside of the"),
        ("digest_length", 0, "<I", 0, "no terminating zero"),
        ("digest_length", 4, "<B", 0xFF, "digest is not UTF-8"),
        ("table", 0, "<i", 0, "layout|outside|more than once"),  # its own vtable
        ("table", 0, "<i", -0x80000000, "outside of the"),
        ("table", 0, "<i", 0x7FFFFFFF, "outside of the"),
        ("vtable", 0, "<H", 0xFFFE, "outside of the"),
        ("vtable", 0, "<H", 5, "layout"),
        ("vtable", 0, "<H", 0, "layout"),
        ("vtable", 2, "<H", 0, "layout"),
        ("vtable", 2, "<H", 0xFFFF, "outside of the"),
        ("vtable", 4, "<H", 0, "problem is missing"),
        ("vtable", 4, "<H", 0xFFFF, "problem is outside of its table"),
        ("vtable", 4, "<H", 1, "problem is outside of its table"),
        ("vtable", 4, "<H", 6, "not aligned"),
    ],
)
def test_forged_offsets(place: str, shift: int, form: str, value: int, message: str) -> None:
    payload = digest_and_order()
    decode(sealed(bytes(payload)))
    struct.pack_into(form, payload, places(payload)[place] + shift, value)
    with pytest.raises(PlanFileError, match=message):
        decode(sealed(bytes(payload)))


def test_a_vector_of_tables_that_points_back_at_itself() -> None:
    forge = Forge()
    data = bytearray(forge.finish(Offsets=forge.offsets([forge.table("OffsetPlan")]))[16:])
    table = struct.unpack_from("<I", data)[0]
    vtable = table - struct.unpack_from("<i", data, table)[0]
    field = table + struct.unpack_from("<H", data, vtable + 4 + 2 * 4)[0]
    entry = field + struct.unpack_from("<I", data, field)[0] + 4
    for back in (-4, -(entry - table), -(entry - field)):  # to its vector, the root, the field it came from
        struct.pack_into("<i", data, entry, back)
        with pytest.raises(PlanFileError):
            decode(sealed(bytes(data)))


@pytest.mark.parametrize("ends", [[-1, 2], [3, 2], [1, 1], [0, 3], [1, 2**63 - 1], [-(2**63), 2]])
def test_string_columns_with_impossible_ends(ends: list[int]) -> None:
    forge = Forge()
    steps = forge.table("Strings", Text=forge.octets(b"ab"), Ends=forge.int64s(ends))
    with pytest.raises(PlanFileError, match="do not cut 2 items"):
        decode(forge.finish(Steps=steps))


def test_a_character_cut_in_two_is_not_text() -> None:
    forge = Forge()
    with pytest.raises(PlanFileError, match="not UTF-8"):
        decode(forge.finish(Steps=forge.strings([b"\xc3", b"\xbc"])))


@pytest.mark.parametrize(
    ("keys", "types", "integers", "texts", "message"),
    [
        ([b"a", b"a"], b"\0\0", [1, 2], [b"", b""], "distinct and ascending"),
        ([b"b", b"a"], b"\0\0", [1, 2], [b"", b""], "distinct and ascending"),
        ([b"a"], b"\4", [1], [b""], "types has the code 4"),
        ([b"a"], b"\3", [1], [b""], "value of two types"),
        ([b"a"], b"\3", [0], [b"x"], "value of two types"),
        ([b"a"], b"\3", [0], [b""], "no dimension"),
        ([b"a"], b"\1", [2], [b""], "value of two types"),
        ([b"a"], b"\0", [2], [b"x"], "value of two types"),
        ([b"a"], b"\2", [2], [b"x"], "value of two types"),
        ([b"a"], b"\0", [2, 3], [b""], "2 entries instead of 1"),
        ([b"a"], b"\2", [0], [b"x"], "no dimension"),
        ([b"a"], b"\1", [1], [b""], "no dimension"),
    ],
)
def test_forged_maps(keys: list[bytes], types: bytes, integers: list[int], texts: list[bytes], message: str) -> None:
    f = Forge()
    columns = {"Keys": f.strings(keys), "Types": f.octets(types), "Integers": f.int64s(integers)}
    dims = f.table("Values", **columns, Texts=f.strings(texts))
    with pytest.raises(PlanFileError, match=message):
        decode(f.finish(Dims=dims))


@pytest.mark.parametrize(
    ("types", "reals", "message"),
    [
        (b"\3", [float("nan")], "'a' in dims is nan"),
        (b"\3", [float("-inf")], "'a' in dims is -inf"),
        (b"\0", [0.5], "value of two types"),
        (b"\3", [0.5, 1.0], "2 entries instead of 1"),
        (b"\3", [], "0 entries instead of 1"),
        (b"\3", [0.5], "no dimension"),
    ],
)
def test_forged_reals(types: bytes, reals: list[float], message: str) -> None:
    f = Forge()
    columns = {
        "Keys": f.strings([b"a"]),
        "Types": f.octets(types),
        "Integers": f.int64s([0]),
        "Texts": f.strings([b""]),
    }
    dims = f.table("Values", **columns, Reals=int(f.builder.CreateNumpyVector(np.array(reals, np.float64))))
    with pytest.raises(PlanFileError, match=message):
        decode(f.finish(Dims=dims))


@pytest.mark.parametrize(
    ("stopped", "numbers", "message"),
    [
        (None, {}, "stopped is missing"),
        ("work", {"Bound": -1}, "bound is -1"),
        ("work", {"Work": -1}, "work is -1"),
        ("work", {"Seed": -2}, "the seed is -2"),
    ],
)
def test_forged_searches(stopped: str | None, numbers: dict[str, int], message: str) -> None:
    f = Forge()
    texts = {} if stopped is None else {"Stopped": f.string(stopped)}
    search = f.table("Search", **texts, **numbers)
    plan = f.table("OffsetPlan", Strategy=f.string("s"), Offsets=f.int64s([]), Search=search)
    with pytest.raises(PlanFileError, match=message):
        decode(f.finish(Offsets=f.offsets([plan])))


@pytest.mark.parametrize(
    ("table", "region", "message"),
    [
        ({}, {"name": "r"}, "attributes of one"),
        ({"name": 5}, {"name": "r"}, "name is str"),
        ({"name": "t", "region": "x"}, {"name": "r"}, "attributes of one"),
        ({"name": "t", "colour": "red"}, {"name": "r"}, "unknown key 'colour'"),
        ({"name": "t", "alignment": -4}, {"name": "r"}, "power of two"),
        ({"name": "t", "texels": 1}, {"name": "r"}, "texels is bool"),
        ({"name": "t", "slots": 1}, {"name": "r"}, "slots is bool"),
        ({"name": "t", "kernels": True}, {"name": "r"}, "kernels is one of"),
        ({"name": "t", "kernels": "x" * 5000}, {"name": "r"}, "kernels is one of"),
        ({"name": "t", "kernels": ""}, {"name": "r"}, "kernels is one of"),
        ({"name": "t"}, {"name": 7}, "region is not"),
        ({"name": "t"}, {"name": "r", "capacity": "9" * 5000}, "region is not"),
        ({"name": "t"}, {"name": "r", "capacity": "9" * 400 + ".0"}, "region is not"),
        ({"name": "t"}, {"name": "r", "capacity": True}, "region is not"),
        ({"name": "t"}, {"name": "r", "capacity": -1}, "region is not"),
        ({"name": "t"}, {"name": "r", "place": 1}, "a region has"),
    ],
)
def test_forged_targets(table: dict[str, str | int | bool], region: dict[str, str | int | bool], message: str) -> None:
    f = Forge()

    def values(entries: dict[str, str | int | bool]) -> int:
        items = [entries[key] for key in sorted(entries)]
        return f.table(
            "Values",
            Keys=f.strings([key.encode() for key in sorted(entries)]),
            Types=f.octets(bytes([int, bool, str].index(type(i)) for i in items)),
            Integers=f.int64s([0 if isinstance(i, str) else int(i) for i in items]),
            Texts=f.strings([i.encode() if isinstance(i, str) else b"" for i in items]),
        )

    target, regions = values(table), f.offsets([values(region)])
    with pytest.raises(PlanFileError, match=message):
        decode(f.finish(Target=target, Regions=regions))


ONE = {"FirstOp": [0], "LastOp": [1], "Sizes": [1]}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"FirstOp": [2], "LastOp": [1], "Sizes": [1]}, "last_op before first_op"),
        ({"FirstOp": [-1], "LastOp": [1], "Sizes": [1]}, "negative first_op"),
        ({"FirstOp": [0], "LastOp": [1], "Sizes": [-1]}, "negative size"),
        ({"FirstOp": [0], "LastOp": [1], "Sizes": [2**63 - 1]}, "more than int64"),
        ({"FirstOp": [0], "LastOp": [1], "Sizes": [1, 2]}, "sizes has 2 entries"),
        ({"FirstOp": [0], "LastOp": [1]}, "sizes has 0 entries"),
        ({"FirstOp": [], "LastOp": [1], "Sizes": [1]}, "first_op has 0 entries"),
        ({**ONE, "Pinned": [0, 0]}, "pinned has 2 entries"),
        ({**ONE, "Pinned": [-2]}, "pinned has a negative offset, or none at all"),
        ({**ONE, "Pinned": [-1]}, "pinned has a negative offset, or none at all"),
        ({**ONE, "Regions": [0]}, "regions has a number out of range, or 0 only"),
        ({**ONE, "Regions": [-1]}, "regions has a number out of range, or 0 only"),
        ({**ONE, "Regions": [2**62]}, "regions has a number out of range, or 0 only"),
        ({**ONE, "Regions": [1, 1]}, "regions has 2 entries"),
        ({**ONE, "Traffic": [0]}, "traffic has a number out of range, or 0 only"),
        ({**ONE, "Traffic": [-1]}, "traffic has a number out of range, or 0 only"),
    ],
)
def test_forged_records(fields: dict[str, list[int]], message: str) -> None:
    f = Forge()
    columns = {name: f.int64s(values) for name, values in fields.items()}
    problem = f.table("Problem", Names=f.strings([b"r"]), Kinds=f.octets(b"\0"), **columns)
    with pytest.raises(PlanFileError, match=message):
        decode(f.finish(Problem=problem))


@pytest.mark.parametrize(
    ("scalars", "message"),
    [
        ({"Rank": 0}, "sizes of rank 0"),
        ({"Rank": 2**62}, "sizes of rank"),
        ({"Alignment": 3}, "not a power of two"),
        ({"Alignment": -(2**63)}, "not a power of two"),
        ({"Alignment": 0}, "not a power of two"),
    ],
)
def test_forged_scalars(scalars: dict[str, int], message: str) -> None:
    f = Forge()
    with pytest.raises(PlanFileError, match=message):
        decode(f.finish(Problem=f.table("Problem", **scalars)))


def test_reasons_are_of_what_is_unplanned() -> None:
    f = Forge()
    data = f.finish(Unplanned=f.strings([b"a", b"b"]), UnplannedReasons=f.strings([b"empty"]))
    with pytest.raises(PlanFileError, match="unplanned_reasons has 1 entries"):
        decode(data)


def test_fields_of_a_later_writer_are_ignored() -> None:
    f = Forge()
    problem = f.table("Problem")
    f.builder.StartObject(25)
    f.builder.PrependUOffsetTRelativeSlot(0, problem, 0)
    f.builder.PrependInt64Slot(1, 7, 0)
    f.builder.PrependInt64Slot(24, 99, 0)
    f.builder.Finish(f.builder.EndObject(), b"EMPL")
    assert decode(sealed(bytes(f.builder.Output()))).naive == 7
