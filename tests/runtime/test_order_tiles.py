"""The order of operators together with tiles, stripes and overlaps: found by itself, and never worse than without."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import onnx
import pytest
from click.testing import CliRunner

from edgemem.cli.main import main
from edgemem.commands.changed_model import change_model
from edgemem.schedule.order import find_order
from edgemem.schedule.peak import peak_of
from edgemem.schedule.precedence import find_precedence
from edgemem.targets import BUILT_IN
from models.build import build
from models.tflite_networks import mobilenet_v2
from tests.branchy import wired_tflite

if TYPE_CHECKING:
    from pathlib import Path

    from edgemem.model.graph import Graph

pytest.importorskip("onnxruntime")

GENERIC = BUILT_IN["generic"]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of small models."""
    folder = tmp_path_factory.mktemp("models")
    for name in ("mobilenet_v2", "resnet18"):
        onnx.save(build(name, size="small"), folder / f"{name}.onnx")
    (folder / "mobilenet.tflite").write_bytes(mobilenet_v2(alpha=0.35, size=96, int8=True, classes=10))
    (folder / "wired.tflite").write_bytes(wired_tflite(16, 1, int8=True))
    return folder


def planned(model: Path, *options: object) -> dict[str, Any]:
    done = CliRunner().invoke(main, ["plan", str(model), *map(str, options), "--json"])
    assert done.exit_code == 0, done.output
    told: dict[str, Any] = json.loads(done.output)
    return told


def arena(told: dict[str, Any]) -> int:
    return min(int(p["size"]) for p in told["plans"] if p["family"] == "offsets")


def breadth_first(graph: Graph) -> Graph:
    """All operators of one depth, then those of the next: all tiles of a layer before the next layer."""
    before = find_precedence(graph)
    depth: list[int] = []
    for k in range(len(graph.ops)):
        depth.append(max((depth[b] + 1 for b in before[k]), default=0))
    return graph.reordered(tuple(sorted(range(len(graph.ops)), key=lambda k: (depth[k], k))))


@pytest.mark.full
@pytest.mark.parametrize("name", ["mobilenet_v2", "resnet18"])
def test_tiles_are_run_depth_first_from_any_order(name: str, models: Path, tmp_path: Path) -> None:
    prepared = change_model(models / f"{name}.onnx", tmp_path, {"tile": {"stages": "auto", "threads": "1"}})
    assert prepared.original is not None
    graph = prepared.model.graph()  # type: ignore[union-attr]
    scattered = breadth_first(graph)
    own, found = peak_of(graph, GENERIC), find_order(scattered, GENERIC)
    assert found.given_peak >= 2 * own, "all tiles of a layer are alive at once"
    assert found.peak <= own


@pytest.mark.full
def test_an_order_is_never_worse_than_tiles_alone(models: Path, tmp_path: Path) -> None:
    model, out = models / "mobilenet_v2.onnx", tmp_path / "out.onnx"
    tiled = planned(model, "--tile", "auto", "--threads", 1)
    both = planned(model, "--tile", "auto", "--order", "auto", "--threads", 1, "-o", out)
    assert arena(both) <= arena(tiled)
    assert both["ordering"]["peak"] <= both["ordering"]["given_peak"]
    assert both["price"]["classical_bound"] == tiled["price"]["classical_bound"]
    done = CliRunner().invoke(main, ["verify", "--run", str(out)])
    assert done.exit_code == 0, done.output
    assert "io-binding: ran" in done.output


@pytest.mark.full
def test_an_order_that_fits_a_budget_costs_no_arithmetic(models: Path) -> None:
    """Tiles are for what an order alone does not reach."""
    model = models / "wired.tflite"
    ordered = planned(model, "-t", "tflm", "--order", "auto")
    budget = arena(ordered)
    assert budget < arena(planned(model, "-t", "tflm"))
    told = planned(model, "-t", "tflm", "--order", "auto", "--stream", "auto", "--budget", budget)
    assert arena(told) <= budget
    assert "price" not in told


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("mobilenet", ("--overlap", "tflm-reference")),
        ("mobilenet", ("--stream", "0:3:4")),
        ("mobilenet", ("--overlap", "cmsis-nn-dsp", "--stream", "head")),
        ("wired", ("--overlap", "tflm-reference")),
        ("wired", ("--stream", "0:1:4")),
    ],
)
def test_nothing_is_worse_with_an_order(name: str, options: tuple[str, ...], models: Path) -> None:
    model = models / f"{name}.tflite"
    given = ("-t", "tflm", "-s", "offsets/search", "--effort", "fast", *options)
    plain, ordered = (planned(model, *given, *more) for more in ((), ("--order", "auto")))
    assert arena(ordered) <= arena(plain)
    assert ordered["ordering"]["given_peak"] == plain["lower_bounds"]["offsets"]
    if name == "wired":
        assert arena(ordered) < arena(plain)


@pytest.mark.full
def test_operators_count_where_stripes_are_chosen(models: Path) -> None:
    """`--stream auto` makes head and tail small together: another order may not give more operators for less head."""
    given = ("-t", "tflm", "-s", "offsets/search", "--effort", "fast", "--stream", "auto")
    told = [planned(models / "mobilenet.tflite", *given, *more) for more in ((), ("--order", "auto"))]
    cost = [arena(one) + one["price"]["tail"]["after"] for one in told]
    assert cost[1] <= cost[0]


def test_overlaps_count_in_the_order(models: Path) -> None:
    given = ("-t", "tflm", "-s", "offsets/search", "--effort", "fast", "--order", "auto")
    told = planned(models / "wired.tflite", *given, "--overlap", "tflm-reference")
    without = planned(models / "wired.tflite", *given)
    assert told["ordering"]["peak"] == told["lower_bounds"]["offsets"] < without["ordering"]["peak"]
    assert told["ordering"]["peak"] < told["ordering"]["given_peak"] < without["ordering"]["given_peak"]
