"""The largest context that fits a budget: against the rule itself, and against the memory of processes."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import onnx
import pytest
from click.testing import CliRunner

from edgemem.cli.main import main
from edgemem.commands import fit as fitting
from edgemem.commands.fit import Fit, FitRow, fit
from edgemem.commands.genai_config import genai_values, merge_config
from edgemem.errors import BudgetExceededError, ModelError
from models.decoder import Sizes, decoder

if TYPE_CHECKING:
    from pathlib import Path

OPENED = 1000  # bytes of the made-up process
ROW = 2 * 2 * 2 * 8 * 4  # bytes of a token in all caches of `decoder()`
ARENA = 3  # of a token of a chunk and one of the context


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save(decoder(sizes=Sizes(positions=4096)), tmp_path / "decoder.onnx")
    return tmp_path / "decoder.onnx"


def _fit(
    model: Path,
    budget: int,
    monkeypatch: pytest.MonkeyPatch,
    *,
    extra: float = 1.0,
    loading: int = OPENED,
    fixed: int = 0,
    **options: Any,
) -> Fit:
    """With an arena of 3 bytes times chunk times context; a process takes `extra` of what is planned, and `fixed`."""

    def arena(planned: Any, states: Any) -> int:
        assert next(iter(states.values())) == "present.0.key"
        dims = planned.bindings.dims
        assert dims["capacity"] == dims["total"] >= dims["sequence"]
        return int(ARENA * dims["sequence"] * dims["total"])

    def measured(_: Any, row: FitRow) -> dict[str, Any]:
        peak = OPENED + row.caches + int((row.arena + row.logits) * extra) + fixed
        return {"loading": loading, "loaded": OPENED, "peak": peak, "mode": "in place", "reason": ""}

    monkeypatch.setattr(fitting._Run, "measured", measured)
    return fit(model, budget, plan=arena, **options)


def _total(chunk: int, context: int, extra: float = 1.0) -> int:
    return OPENED + ROW * context + int((ARENA * chunk * context + chunk * 40 * 4) * extra)


@pytest.mark.parametrize("budget", [20_000, 33_333, 100_000, 1_000_000])
@pytest.mark.parametrize("extra", [1.0, 2.5, 0.3])
def test_the_longest_context_of_the_chosen_chunk_is_found(
    budget: int, extra: float, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = _fit(model, budget, monkeypatch, extra=extra, most_context=2048)
    target = budget - made.margin
    assert made.margin == int(0.03 * budget)
    assert made.measured == _total(made.best.chunk, made.best.context, extra) <= target
    fitting_at_all = [n for n in range(16, 2049, 8) if _total(made.best.chunk, n, extra) <= target]
    near = made.measured > target * 0.98
    for row in (made.best, *made.rows):
        assert made.opened + row.caches + row.arena + row.logits + row.rest == row.total
    assert abs(made.best.total - made.measured) <= 1
    assert made.best.context == fitting_at_all[-1] or near


@pytest.mark.parametrize("fixed", [0, 10_000, 13_500])
def test_what_every_run_takes_besides_leaves_less_for_the_context(
    fixed: int, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = _fit(model, 20_000, monkeypatch, fixed=fixed, most_context=2048)
    target = 20_000 - made.margin
    fitting_at_all = [n for n in range(16, 2049, 8) if _total(made.best.chunk, n) + fixed <= target]
    assert made.measured == made.best.total == _total(made.best.chunk, made.best.context) + fixed
    assert made.best.context == fitting_at_all[-1] or made.measured > target * 0.98


def test_rows_are_those_of_a_search_of_every_context(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = _fit(model, 60_000, monkeypatch, most_context=1024, check=False)
    assert made.measured is None
    for row in made.rows:
        fits = [n for n in range(max(16, row.chunk), 1025, 8) if _total(row.chunk, n) <= 58_200]
        assert row.context == fits[-1]
        assert row.total == _total(row.chunk, row.context)
    assert {row.chunk for row in made.rows} == {
        c for c in fitting.CHUNKS if c <= 1024 and _total(c, max(16, c)) <= 58_200
    }
    longest = max(row.context for row in made.rows)
    assert made.best.context >= 0.9 * longest
    assert all(row.context < 0.9 * longest for row in made.rows if row.chunk > made.best.chunk)


def test_too_small_a_budget_is_an_error_that_says_what_is_needed(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BudgetExceededError, match=r"at a context of 16, 4.88 KiB are available, of .*; quan") as caught:
        _fit(model, 5_000, monkeypatch, most_context=64)
    assert _fit(model, caught.value.required, monkeypatch, most_context=64).best.context >= 16
    assert caught.value.required == int(_total(1, 16) / 0.97) + 1


def test_a_session_that_takes_too_much_while_it_is_opened_is_an_error(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fits = _fit(model, 100_000, monkeypatch, loading=97_000, most_context=64)
    assert fits.measured == fits.loading == 97_000
    with pytest.raises(BudgetExceededError, match=r"takes 94.73 KiB while its session is opened"):
        _fit(model, 100_000, monkeypatch, loading=97_001, most_context=64)


def test_caches_that_cannot_be_changed_count_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    onnx.save(decoder("attention"), tmp_path / "decoder.onnx")
    answer = {"loading": OPENED, "loaded": OPENED, "peak": 0, "mode": "in turn", "reason": ""}
    monkeypatch.setattr(fitting._Run, "measured", lambda *_: answer)
    made = fit(tmp_path / "decoder.onnx", 10**9, plan=lambda _, states: len(states), most_context=512)
    assert made.best.caches == 2 * ROW * 512
    assert made.best.arena == 0  # no state is in the plan
    assert not made.changed
    assert not genai_values(made)["search"]["past_present_share_buffer"]


def test_a_model_without_caches_is_refused(tmp_path: Path) -> None:
    graph = onnx.parser.parse_graph("g (float[N] x) => (float[N] y) { y = Relu(x) }")
    onnx.save(onnx.helper.make_model(graph), tmp_path / "m.onnx")
    with pytest.raises(ModelError, match="no cache to fit"):
        fit(tmp_path / "m.onnx", 10**9, plan=lambda *_: 0)
    (tmp_path / "m.csv").write_text("name,first_op,last_op,size\na,0,1,4\n")
    with pytest.raises(ModelError):
        fit(tmp_path / "m.csv", 10**9, plan=lambda *_: 0)


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_command_measures_its_answer_and_writes_the_configuration(tmp_path: Path) -> None:
    onnx.save(decoder(sizes=Sizes(layers=4, heads=8, groups=8, width=64, positions=600)), tmp_path / "decoder.onnx")
    config = tmp_path / "genai_config.json"
    config.write_text('{"model": {"type": "llama", "context_length": 1}, "other": [1]}')
    command = ["fit", str(tmp_path / "decoder.onnx"), "--context", "600", "-o", str(config)]
    free = json.loads(CliRunner().invoke(main, [*command, "--budget", "2GiB", "--json"]).output)
    assert free["best"]["context"] == 600
    assert free["mode"] == "in place"
    # One process measured `opened`, another the rest.
    assert 0.99 * free["opened"] <= free["loading"] <= free["measured"] <= free["budget"] - free["margin"]
    budget = free["opened"] + (free["measured"] - free["opened"]) // 2
    made = CliRunner().invoke(main, [*command, "--budget", str(budget), "--json"])
    if made.exit_code == 0:  # the noise of a process may be as large as the rest
        tight = json.loads(made.output)
        assert tight["measured"] <= budget
        assert (tight["best"]["context"], tight["best"]["chunk"]) < (600, free["best"]["chunk"] + 1)
    # The table of positions has 600 rows, which no file says: ONNX Runtime refuses more.
    text = CliRunner().invoke(main, [*command[:2], *command[4:], "--budget", "2GiB"])
    assert text.exit_code == 0, text.output
    assert text.output.startswith("context 600, prefill chunk 512: ")
    assert "The model ran with up to 600 tokens" in text.output
    assert max(map(len, text.output.splitlines())) <= 80 or "These figures are for the file" in text.output
    written = json.loads(config.read_text())
    assert written == {
        "model": {"type": "llama", "context_length": 600},
        "other": [1],
        "search": {"max_length": 600, "past_present_share_buffer": True, "chunk_size": 512},
    }
    small = CliRunner().invoke(main, [*command, "--budget", "1MiB"])
    assert small.exit_code == 3


def test_a_configuration_keeps_what_is_in_it(tmp_path: Path) -> None:
    path = tmp_path / "genai_config.json"
    merge_config(path, {"search": {"chunk_size": 4}})
    assert json.loads(path.read_text()) == {"search": {"chunk_size": 4}}
    for damaged in ("[1]", "{", '{"search": 1}', "\xff"):
        path.write_bytes(damaged.encode("latin-1"))
        with pytest.raises(ModelError, match=r"is no genai_config"):
            merge_config(path, {"search": {"chunk_size": 4}})
        assert path.read_bytes() == damaged.encode("latin-1")
