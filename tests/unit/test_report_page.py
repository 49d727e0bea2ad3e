"""The page of `edgemem report`: what is in it, what it may load, and how large it is."""

from __future__ import annotations

import base64
import hashlib
import json
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import numpy as np
import pytest
from click.testing import CliRunner

import edgemem
from edgemem.cli.main import main
from edgemem.errors import InvalidPlanError, PlanFileError
from edgemem.model.graph import Graph, Op, Tensor
from edgemem.report.memory_data import memory_of_page
from edgemem.report.planned_memory import planned_memory
from edgemem.report.report_page import PageProof, ReportPage, page_html
from tests.branchy import bundle
from tests.difference_models import Layers
from tests.unit.test_difference import hostile
from tests.unit.test_hostile_names import HOSTILE

if TYPE_CHECKING:
    from pathlib import Path

MOST_BYTES = 1_500_000  # of a page for 10,000 operators


class Elements(HTMLParser):
    """All elements with their attributes and texts."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, dict[str, str | None], str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        self.found.append((f"/{tag}", {}, ""))

    def handle_data(self, data: str) -> None:
        if self.found:
            tag, attributes, text = self.found[-1]
            self.found[-1] = (tag, attributes, text + data)

    def all(self, name: str) -> list[tuple[dict[str, str | None], str]]:
        return [(attributes, text) for tag, attributes, text in self.found if tag == name]


def page_of(planset: edgemem.PlanSet, name: str = "model.onnx") -> str:
    return page_html(ReportPage(planned_memory(planset, name=name), PageProof(right=True, checked=("all",))))


def test_the_page_has_the_figures_of_the_plan(tmp_path: Path) -> None:
    model = Layers().save(tmp_path / "m.onnx")
    edgemem.save_report(model, tmp_path / "r.html", budget=1 << 20)
    text = (tmp_path / "r.html").read_text()
    planset = edgemem.plan(model)
    memory = memory_of_page(text)
    best = planset.best_offsets
    assert best is not None
    assert (memory.arena, memory.lower_bound, memory.naive) == (best.size, planset.proved.offsets, planset.naive)
    assert [r.offset for r in memory.records] == best.offsets.tolist()
    assert [r.name for r in memory.records] == list(planset.problem.names)
    assert [(r.first, r.last, r.size) for r in memory.records] == [
        (r.first_op, r.last_op, r.size) for r in planset.problem.records
    ]
    assert [o.label for o in memory.operators] == list(planset.steps)
    conv = memory.operators[1]
    assert (conv.type, conv.weights, conv.macs) == ("Conv", 8 * 8 * 9 * 4, 8 * 8 * 9 * 16 * 16)
    assert [memory.tensors[t].name for t in (*conv.reads, *conv.writes)] == ["conv0", "conv1"]
    data = json.loads(Elements(text).all("script")[0][1])
    assert data["report"]["budget"] == 1 << 20
    assert data["report"]["proof"]["right"]
    assert any(line.startswith("rehearsal: ") for line in data["report"]["proof"]["checked"])


def test_nothing_runs_and_nothing_loads_but_what_the_policy_names() -> None:
    page = Elements(page_of(hostile()))
    policy = next(a["content"] for a, _ in page.all("meta") if a.get("http-equiv") == "Content-Security-Policy") or ""
    rules = {rule.split()[0]: rule.split()[1:] for rule in policy.split("; ")}
    assert rules["default-src"] == ["'none'"]
    scripts = [text for attributes, text in page.all("script") if "type" not in attributes]
    for texts, rule in ((scripts, "script-src"), ([text for _, text in page.all("style")], "style-src")):
        digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts]
        assert [f"'sha256-{d}'" for d in digests] == rules[rule]
    assert len(scripts) == 1
    for tag, attributes, _ in page.found:
        assert tag.removeprefix("/") in {
            "html",
            "head",
            "meta",
            "title",
            "style",
            "body",
            "a",
            "main",
            "noscript",
            "p",
            "script",
        }
        assert not {k for k in attributes if k.startswith("on") or k in ("src", "style")}
        assert attributes.get("href") in (None, "#map")


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_stays_text(name: str) -> None:
    text = page_of(hostile(), name=name)
    page = Elements(text)
    assert len(page.all("script")) == 2
    assert [a for a, _ in page.all("script")] == [{"type": "application/json", "id": "edgemem-data"}, {}]
    assert memory_of_page(text).name == name
    assert text.isascii() or all(ord(c) < 0xD800 or ord(c) > 0xDFFF for c in text)


def test_scripts_set_no_markup() -> None:
    from edgemem.report import report_page

    scripts = [f.read_text() for f in report_page._FOLDER.glob("*.js")]
    assert len(scripts) == len(report_page._SCRIPTS)
    for word in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "fetch(",
        "http://",
        "https:",
    ):
        assert not [s for s in scripts if word in s.replace("http://www.w3.org/2000/svg", "")], word


def test_the_same_plan_gives_the_same_page() -> None:
    assert page_of(hostile()) == page_of(hostile())


def test_a_page_of_ten_thousand_operators_is_small() -> None:
    text = page_html(ReportPage(planned_memory(*big_plan(), name="big.onnx"), PageProof(right=True)))
    assert len(text.encode()) < MOST_BYTES
    assert len(memory_of_page(text).operators) == 10_000


def big_plan() -> tuple[edgemem.PlanSet, Graph]:
    """10,000 operators with names as long as exporters make them, some of which read what is a while back."""
    rng = np.random.default_rng(0)
    kinds = "Conv Relu Conv Add MatMul Softmax LayerNormalization Mul Conv Concat".split()  # noqa: SIM905
    tensors, ops = [Tensor("input", "float32", (1, 64, 14, 14))], []
    for k in range(10_000):
        block, place = divmod(k, 10)
        kind = kinds[place]
        name = f"/model/encoder/layers.{block}/block/{kind.lower()}_{place}/{kind}"
        tensors.append(Tensor(f"{name}_output_0", "float32", (1, int(rng.integers(8, 512)), 14, 14)))
        tensors.append(Tensor(f"{name}.weight", "float32", (64, 64, 3, 3), "constant"))
        before = 2 * k - 1 if k else 0
        more = (before - 2 * int(rng.integers(1, 5)),) if kind in ("Add", "Concat") and k > 10 else ()
        ops.append(Op(name, kind, (before, *more, 2 * k + 2), (2 * k + 1,)))
    graph = Graph("big", tuple(tensors), tuple(ops), (0,), (len(tensors) - 2,))
    return edgemem.plan(graph, strategy=("offsets/greedy_by_size", "shared_objects/greedy_by_size")), graph


def test_a_search_for_less_memory_ends_at_its_time_limit(tmp_path: Path) -> None:
    model, page = Layers().save(tmp_path / "m.onnx"), tmp_path / "m.html"
    command = ["report", str(model), "-o", str(page), "--time-limit", "0"]
    refused = CliRunner().invoke(main, command)
    assert refused.exit_code == 2
    assert "--time-limit is for --shrink" in refused.output
    done = CliRunner().invoke(main, [*command, "--shrink"])
    assert done.exit_code == 0, done.output
    assert "time limit" in page.read_text()


def test_pages_are_compared_and_read_by_diff(tmp_path: Path) -> None:
    old, new = Layers().save(tmp_path / "old.onnx"), Layers(size=32).save(tmp_path / "new.onnx")
    done = CliRunner().invoke(main, ["report", str(new), "--against", str(old), "-o", str(tmp_path / "new.html")])
    assert done.exit_code == 0, done.output
    edgemem.save_report(old, tmp_path / "old.html")
    found, of_models = edgemem.diff(tmp_path / "old.html", tmp_path / "new.html"), edgemem.diff(old, new)
    assert (found.figures, found.edits, found.tensors) == (of_models.figures, of_models.edits, of_models.tensors)
    data = json.loads(Elements((tmp_path / "new.html").read_text()).all("script")[0][1])
    assert [e["kind"] for e in data["report"]["difference"]["edits"]] == ["input"]
    assert [o["label"] for o in data["report"]["others"]] == ["Before"]
    assert data["report"]["others"][0]["data"]["arena"] == of_models.arena.before
    (tmp_path / "none.html").write_text("<html></html>")
    with pytest.raises(PlanFileError, match=r"none\.html: it is no page"):
        edgemem.diff(tmp_path / "none.html", old)


def test_ways_to_need_less_have_commands(tmp_path: Path) -> None:
    model = tmp_path / "my model.tflite"
    model.write_bytes(bundle())
    shrunk = edgemem.shrink(model, allow=("order",))
    edgemem.save_report(model, tmp_path / "r.html", found=shrunk.found)
    front = json.loads(Elements((tmp_path / "r.html").read_text()).all("script")[0][1])["report"]["front"]
    rows, found = front["rows"], shrunk.found
    # A change removes bytes of a plan, not of a bound.
    assert front["whole"] == memory_of_page((tmp_path / "r.html").read_text()).memory
    listed = (found.candidates[0], *found.front, shrunk.chosen)
    assert {row["steps"]: row["memory"] for row in rows} == {c.text: c.memory for c in listed}
    assert [row["command"] for row in rows if row["chosen"]] == [
        f"edgemem shrink 'my model.tflite' --steps {shrunk.chosen.text} -o 'my model.small.tflite'"
    ]


def test_a_wrong_plan_gives_no_page(tmp_path: Path) -> None:
    from dataclasses import replace

    from edgemem import planfile

    planset = edgemem.plan(edgemem.Problem([edgemem.UsageRecord("a", 0, 1, 64), edgemem.UsageRecord("b", 1, 2, 64)]))
    wrong = replace(planset, offsets=tuple(replace(p, offsets=p.offsets * 0, size=64) for p in planset.offsets))
    planfile.save(wrong, tmp_path / "wrong.edgemem")
    with pytest.raises(InvalidPlanError):
        edgemem.save_report(tmp_path / "wrong.edgemem", tmp_path / "r.html")
    assert not (tmp_path / "r.html").exists()
