"""Training inside a plan computes what PyTorch computes, bit for bit, whatever the program does."""

from __future__ import annotations

import logging
import os
import pickle
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import edgemem.torch  # noqa: E402
from edgemem.errors import ModelError, RuntimeBindError  # noqa: E402
from tests.torch.training import MODELS, OPTIMIZERS, Training  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from edgemem.torch import Session, TrainingPlan

pytestmark = pytest.mark.usefixtures("_one_thread")

PROFILED = 7  # steps that a profile runs
STATIC = ("resnet18", "gpt")


@pytest.fixture
def marked() -> Iterator[Callable[[Training], None]]:
    """Marks a model; a router's experts are dynamic."""
    all_marks = []

    def mark(training: Training) -> None:
        dynamic = ("*.experts",) if training.name == "experts" else ()
        all_marks.append(edgemem.torch.mark(training.model, dynamic=dynamic))

    yield mark
    for marks in all_marks:
        marks.remove()


def plain(name: str, optimizer: str, steps: int) -> Any:
    training = Training(name, optimizer)
    for _ in range(steps):
        training.step()
    return training.result()


def inside(session: Session, training: Training, steps: int) -> None:
    for _ in range(steps):
        with session.iteration():
            training.step()


@pytest.mark.parametrize("poison", [False, True], ids=["", "poison"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", MODELS)
def test_twenty_steps_are_bit_identical_and_in_the_plan(
    name: str, optimizer: str, marked: Callable[[Training], None], poison: bool
) -> None:
    training = Training(name, optimizer)
    marked(training)
    plan = edgemem.torch.profile(training.step, warmup=3).plan()
    with plan.session(poison=poison) as session:
        inside(session, training, 20 - PROFILED)
        last = session.stats.last
    assert training.result() == plain(name, optimizer, 20)
    assert plan.size - plan.room <= 1.01 * plan.lower_bound
    assert last.misses == last.occupied == last.unplanned == last.failed == 0
    assert last.hits + last.dynamic_hits + last.dynamic_misses == last.requests
    if name in STATIC:
        assert last.hits == last.requests > 100
        assert plan.room == 0
        assert session.stats.total.hits == session.stats.total.requests
    else:
        assert last.dynamic_hits > 9 * last.dynamic_misses
        assert last.hits == int((~plan.made.cycles[0].is_dynamic).sum())
    assert session.stats.replans == 0


@pytest.mark.parametrize("is_kept_in_profile", [False, True])
@pytest.mark.parametrize("is_kept_in_loop", [False, True])
def test_a_loop_that_keeps_its_loss_is_in_the_plan(is_kept_in_profile: bool, is_kept_in_loop: bool) -> None:
    training = Training("gpt")

    def step() -> Any:
        given, target = training.batch()
        training.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(training.model(given), target)
        loss.backward()
        training.optimizer.step()
        return loss

    def without() -> Any:
        step()
        return None

    plan = edgemem.torch.profile(step if is_kept_in_profile else without).plan()
    assert plan.size <= 1.01 * plan.lower_bound
    loss = None
    with plan.session() as session:
        for k in range(20):
            with session.iteration():
                loss = step() if is_kept_in_loop else without()
            if k >= 10:
                assert session.stats.last.hits == session.stats.last.requests
        assert session.stats.replans == (is_kept_in_loop and not is_kept_in_profile)
    assert (loss is not None) == is_kept_in_loop


def test_batches_that_alternate_are_looked_at_ever_more_seldom(caplog: pytest.LogCaptureFixture) -> None:
    training = Training("gpt")
    tried = []
    with caplog.at_level(logging.DEBUG, "edgemem"), planned(training).session() as session:
        for _ in range(2):
            caplog.clear()
            for k in range(40):
                with session.iteration():
                    training.step(2 + k % 2)
            tried.append(sum("differ from each other" in record.message for record in caplog.records))
        assert session.stats.replans == 0
    assert 1 <= tried[1] < tried[0] <= 5


def test_what_is_printed_is_short() -> None:
    training = Training("gpt")
    profile = edgemem.torch.profile(training.step)
    plan = profile.plan()
    with plan.session() as session:
        inside(session, training, 2)
        shown = [repr(profile), str(plan), repr(plan.made), repr(session)]
        text = str(session.stats)
    assert all(len(line) < 200 and "\n" not in line and f"{plan.lower_bound:,}" in line for line in shown)
    count = session.stats.last.requests
    assert text.splitlines()[1] == f"last iteration: {count:,} of {count:,} requests in the plan"
    assert "session" not in text
    assert text.startswith("2 iterations, 0 new plans")


def test_sizes_that_depend_on_the_data_are_named_where_nothing_is_marked() -> None:
    with pytest.raises(ModelError, match="mark what is dynamic"):
        edgemem.torch.profile(Training("experts").step)


def planned(training: Training) -> TrainingPlan:
    return edgemem.torch.profile(training.step).plan()


def test_a_larger_batch_misses_and_is_planned_anew() -> None:
    reference, training = Training("gpt"), Training("gpt")
    for size in [2] * 9 + [5] * 8 + [2] * 3:
        reference.step(size)
    plan = planned(training)
    with plan.session() as session:
        inside(session, training, 2)
        assert session.stats.last.misses == 0
        for k in range(8):
            with session.iteration():
                training.step(5)
            if not k:
                assert session.stats.last.misses > 0
                assert session.stats.arena == plan.size
        grown = session.stats
        assert grown.replans == 1
        assert grown.last.hits == grown.last.requests
        assert plan.size < grown.arena <= 1.01 * grown.lower_bound
        inside(session, training, 3)
        assert session.stats.total.misses > 0
    assert training.result() == reference.result()


def test_a_path_that_comes_back_gets_its_old_plan() -> None:
    training = Training("gpt")
    plan = planned(training)
    with plan.session() as session:
        for size in (2, 5, 2, 5):
            for _ in range(20):
                with session.iteration():
                    training.step(size)
            assert session.stats.last.hits == session.stats.last.requests
        assert session.stats.replans == 1
        assert session.plan is not plan.made


def test_a_plan_that_is_to_stay_stays() -> None:
    training = Training("gpt")
    plan = planned(training)
    with plan.session(replans=0) as session:
        for _ in range(10):
            with session.iteration():
                training.step(5)
        assert session.stats.replans == 0
        assert session.plan is plan.made
        assert session.stats.last.misses > 0


def test_batches_that_all_differ_cost_misses_and_no_plans() -> None:
    reference, training = Training("gpt"), Training("gpt")
    for size in [2] * PROFILED + list(range(3, 23)):
        reference.step(size)
    with planned(training).session() as session:
        for size in range(3, 23):
            with session.iteration():
                training.step(size)
        assert session.stats.replans == 0
        assert session.stats.total.misses > 0
    assert training.result() == reference.result()


class _Paths(nn.Module):
    """A step that takes another path asks for the same sizes, and keeps more of them alive."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(6))

    def forward(self, x: Any, is_other: bool) -> Any:
        kept = []
        for k, layer in enumerate(self.layers):
            if is_other and k == 2:
                continue
            x = torch.tanh(layer(x) * x) if is_other and k % 2 else torch.relu(layer(x))
            kept.append(x)
        return sum(kept) if is_other else x


@pytest.mark.parametrize("poison", [False, True], ids=["", "poison"])
def test_another_path_computes_the_same_bits(poison: bool) -> None:
    paths = [False] * PROFILED + [False, True, False, True, False, *([True] * 12), False, True, False]

    def run(is_planned: bool) -> tuple[list[float], list[bytes]]:
        torch.manual_seed(0)
        model = _Paths()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        batch, losses, left = torch.randn(16, 64), [], iter(paths)

        def step() -> None:
            optimizer.zero_grad()
            loss = model(batch, next(left)).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))

        if is_planned:
            with edgemem.torch.profile(step).plan().session(poison=poison) as session:
                for _ in range(len(paths) - PROFILED):
                    with session.iteration():
                        step()
            assert session.stats.total.misses + session.stats.total.occupied > 0
            assert session.stats.replans >= 1
        else:
            for _ in paths:
                step()
        return losses, [p.detach().numpy().tobytes() for p in model.parameters()]

    assert run(is_planned=True) == run(is_planned=False)


@pytest.mark.parametrize("where", ["paused between", "paused inside", "between", "inside"])
def test_an_evaluation_changes_nothing(where: str) -> None:
    reference, training = Training("resnet18"), Training("resnet18")
    for k in range(PROFILED + 6):
        reference.step()
        if k >= PROFILED:
            reference.evaluate()
    with planned(training).session() as session:
        for _ in range(6):
            with session.iteration():
                training.step()
                if where == "paused inside":
                    with session.paused():
                        training.evaluate()
                elif where == "inside":
                    training.evaluate()
            if where == "paused between":
                with session.paused():
                    training.evaluate()
            elif where == "between":
                training.evaluate()
        if where == "inside":
            assert session.stats.total.misses > 0
        else:
            assert session.stats.last.hits == session.stats.last.requests
            assert session.stats.replans == 0
    assert training.result() == reference.result()


@pytest.mark.parametrize("poison", [False, True], ids=["", "poison"])
def test_two_threads_train_at_once(poison: bool) -> None:
    first, second = Training("gpt"), Training("gpt", "adam")
    with planned(first).session(poison=poison) as session:
        failed: list[BaseException] = []

        def other() -> None:
            try:
                for _ in range(12):
                    second.step()
            except BaseException as e:  # noqa: BLE001 - told below
                failed.append(e)

        thread = threading.Thread(target=other)
        thread.start()
        inside(session, first, 12)
        thread.join()
    assert failed == []
    assert first.result() == plain("gpt", "sgd", PROFILED + 12)
    assert second.result() == plain("gpt", "adam", 12)


@pytest.mark.parametrize("poison", [False, True], ids=["", "poison"])
def test_a_step_of_two_threads_is_planned_for_both(poison: bool) -> None:
    """At times a thread is so much earlier than in the recorded step that a place is still taken."""
    first, second = Training("gpt"), Training("gpt", "adam", batch=3)
    with ThreadPoolExecutor(1) as pool, edgemem.torch.Session(poison=poison) as session:
        for steps in range(1, 61):
            with session.iteration():
                other = pool.submit(second.step)
                first.step()
                other.result()
            is_whole = session.stats.last.hits == session.stats.last.requests
            if steps >= 12 and session.stats.replans and is_whole:
                break
        assert is_whole
        assert session.stats.replans >= 1
    reference = Training("gpt", "adam", batch=3)
    for _ in range(steps):
        reference.step()
    assert first.result() == plain("gpt", "sgd", steps)
    assert second.result() == reference.result()


def test_threads_that_take_and_free_blocks_of_each_other() -> None:
    training = Training("gpt")
    given: list[Any] = []
    is_done = threading.Event()

    def other() -> None:
        k = 0
        while not is_done.is_set():
            k += 1
            given.append(torch.full((100 + k % 50,), k))
            if len(given) > 10:
                taken = given.pop(0)
                assert (taken == taken[0]).all()

    with planned(training).session() as session:
        threads = [threading.Thread(target=other) for _ in range(2)]
        for thread in threads:
            thread.start()
        inside(session, training, 12)
        is_done.set()
        for thread in threads:
            thread.join()
    assert all((t == t[0]).all() for t in given)
    assert training.result() == plain("gpt", "sgd", PROFILED + 12)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_step_that_fails_in_the_middle_leaves_the_session_usable(error: type[BaseException]) -> None:
    def half(training: Training) -> None:
        given, _ = training.batch()
        training.losses += [training.model(given).detach().numpy().tobytes()]
        raise error

    reference, training = Training("resnet18"), Training("resnet18")
    for k in range(PROFILED + 8):
        reference.step()
        if k == PROFILED + 2:
            with pytest.raises(error):
                half(reference)
    with planned(training).session() as session:
        inside(session, training, 3)
        with pytest.raises(error), session.iteration():
            half(training)
        inside(session, training, 5)
        assert session.stats.last.hits == session.stats.last.requests
        assert session.stats.iterations == 9
    assert training.result() == reference.result()


def test_a_session_that_an_exception_ends_leaves_pytorch_as_it_was() -> None:
    training = Training("gpt")
    plan = planned(training)
    session = plan.session()

    def fail() -> None:
        training.step()
        raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"), session, session.iteration():
        fail()
    for _ in range(4):
        training.step()
    assert training.result() == plain("gpt", "sgd", PROFILED + 5)
    before = session.stats
    assert before == session.stats
    with plan.session() as again:
        inside(again, training, 2)
        assert again.stats.last.hits == again.stats.last.requests


def test_tensors_outlive_the_session_and_its_plans() -> None:
    training = Training("gpt")
    with planned(training).session() as session:
        inside(session, training, 3)
        with session.iteration():
            output = training.model(torch.zeros(2, 16, dtype=torch.long))
        kept = output.detach().clone()
        for _ in range(8):
            with session.iteration():
                training.step(5)
    del session
    for _ in range(3):
        training.step()
    assert torch.equal(output.detach(), kept)
    grown = output.detach().resize_(10_000)  # asks the allocator that the storage came from
    assert torch.equal(grown[: kept.numel()], kept.flatten())


def test_memory_that_there_is_not_is_pytorchs_error_and_no_end() -> None:
    training = Training("gpt")
    with planned(training).session() as session:
        with pytest.raises(RuntimeError, match="no memory for"), session.iteration():
            torch.empty(1 << 60, dtype=torch.uint8)
        inside(session, training, 3)
        assert session.stats.last.hits == session.stats.last.requests


@pytest.mark.parametrize("error", [MemoryError, RuntimeBindError])
def test_without_memory_for_a_new_arena_training_goes_on_with_the_old_plan(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    reference, training = Training("gpt"), Training("gpt")
    for size in [2] * PROFILED + [5] * 14 + [2]:
        reference.step(size)
    plan = planned(training)
    with plan.session() as session:
        with monkeypatch.context() as patch:
            patch.setattr(session._backend, "arena", _refusal(error))
            for _ in range(7):
                with session.iteration():
                    training.step(5)
            assert session.plan is plan.made
            assert "without the new plan" in caplog.text
        for _ in range(7):
            with session.iteration():
                training.step(5)
        assert session.plan is not plan.made  # tried again when there is memory
        assert session.stats.last.hits == session.stats.last.requests
        assert session.stats.replans == 1
        inside(session, training, 1)
    assert training.result() == reference.result()


def _refusal(error: type[Exception]) -> Callable[[int], Any]:
    def arena(_: int) -> Any:
        raise error("no")

    return arena


def test_pytorchs_profiler_sees_what_a_plan_serves() -> None:
    training = Training("gpt")
    with planned(training).session() as session, session.iteration():
        with torch.profiler.profile(profile_memory=True) as profiler:
            training.step()
        sizes = edgemem.torch.trace_of_profiler(profiler).size
    assert int((sizes > 0).sum()) == session.stats.last.requests == session.stats.last.hits


def test_new_plans_are_made_with_the_settings_of_the_first() -> None:
    training = Training("gpt")
    plan = edgemem.torch.profile(training.step).plan("pyramid")
    with plan.session() as session:
        for _ in range(8):
            with session.iteration():
                training.step(5)
        assert session.stats.replans == 1
        assert session.plan is not None
        assert [p.strategy for p in session.plan.plansets[0].offsets] == ["pyramid"]


def test_a_session_without_a_plan_makes_its_own() -> None:
    training = Training("resnet18", "adam")
    with edgemem.torch.Session() as session:
        inside(session, training, 20)
        stats = session.stats
    assert stats.replans == 1
    assert stats.last.hits == stats.last.requests
    assert stats.arena <= 1.01 * stats.lower_bound
    assert training.result() == plain("resnet18", "adam", 20)


def test_there_is_one_session_and_one_iteration_at_a_time() -> None:
    training = Training("gpt")
    plan = planned(training)
    with plan.session() as session:
        with pytest.raises(RuntimeBindError, match="a session is open on cpu"), plan.session():
            pass
        with pytest.raises(RuntimeBindError, match="a session is open on cpu"):
            edgemem.torch.profile(training.step)
        with (
            session.iteration(),
            pytest.raises(RuntimeBindError, match="an iteration is on already"),
            session.iteration(),
        ):
            pass
        with session.paused(), pytest.raises(RuntimeBindError, match="paused"), session.iteration():
            pass
        inside(session, training, 2)
    with pytest.raises(RuntimeBindError, match="not open"), session.iteration():
        pass
    with pytest.raises(RuntimeBindError, match="has not begun"):
        _ = plan.session().stats
    with pytest.raises(RuntimeBindError, match="the devices are cpu and cuda"):
        edgemem.torch.Session(device="tpu")


def test_iterations_and_pauses_decorate_functions() -> None:
    training = Training("gpt")
    with planned(training).session() as session:
        step = session.iteration()(training.step)
        evaluate = session.paused()(training.step)
        step()
        evaluate()
        step()
        assert session.stats.iterations == 2
        assert session.stats.last.hits == session.stats.last.requests == session.stats.total.requests // 2


def test_a_forked_child_trains_by_itself() -> None:
    training = Training("gpt")
    with planned(training).session() as session:
        inside(session, training, 2)
        with session.iteration():
            half = training.model(torch.zeros(2, 16, dtype=torch.long))
            child = os.fork()
            if not child:
                is_same = False
                try:
                    half.sum().backward()
                    for _ in range(3):
                        training.step()
                    is_same = training.result() == plain("gpt", "sgd", PROFILED + 5)
                finally:
                    os._exit(0 if is_same else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        del half
        inside(session, training, 3)
    assert training.result() == plain("gpt", "sgd", PROFILED + 5)


def test_a_child_that_is_forked_while_other_threads_allocate_does_not_wait_for_them() -> None:
    training = Training("gpt")
    is_done = threading.Event()

    def other() -> None:
        while not is_done.is_set():
            torch.zeros(100)

    with planned(training).session() as session:
        threads = [threading.Thread(target=other) for _ in range(2)]
        for thread in threads:
            thread.start()
        for _ in range(20):
            with session.iteration():
                training.step()
                child = os.fork()
                if not child:
                    signal.alarm(30)
                    code = 1
                    try:
                        torch.zeros(1000).sum()
                        training.step()
                        code = 0
                    finally:
                        os._exit(code)
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        is_done.set()
        for thread in threads:
            thread.join()
    assert training.result() == plain("gpt", "sgd", PROFILED + 20)


def test_a_plan_of_another_process_finds_the_sections_here(tmp_path: Path, marked: Callable[[Training], None]) -> None:
    training = Training("experts")
    marked(training)
    path = tmp_path / "plan"
    path.write_bytes(pickle.dumps(planned(training)))
    program = f"""
import pickle
from pathlib import Path
import torch, edgemem.torch
from tests.torch.training import Training
torch.set_num_threads(1)
other = Training("resnet18")
edgemem.torch.mark(other.model)
with edgemem.torch.Session() as session, session.iteration():
    other.step()
training = Training("experts")
edgemem.torch.mark(training.model, dynamic=("*.experts",))
training.step()
with pickle.loads(Path({str(path)!r}).read_bytes()).session(replans=0) as session:
    for _ in range(3):
        with session.iteration():
            training.step()
    print(session.stats.last.misses, session.stats.last.dynamic_hits > 0)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == "0 True\n", done.stderr


def test_the_profile_says_what_is_planned() -> None:
    training = Training("gpt")
    profile = edgemem.torch.profile(training.step)
    lines = str(profile).splitlines()
    assert lines[0] == (
        f"lower bound {profile.lower_bound:,} bytes; {len(profile.cycles[0]):,} requests in an iteration"
    )
    assert sum(int(line.split()[0].replace(",", "")) for line in lines[1:3]) == len(profile.cycles[0])
    assert "freed in a later iteration" in lines[2]


def test_an_iteration_on_another_thread_is_refused() -> None:
    training = Training("gpt", "sgd")
    with edgemem.torch.Session() as session, ThreadPoolExecutor(1) as pool:
        with pytest.raises(RuntimeBindError, match="runs on the thread that began the session"):
            pool.submit(inside, session, training, 1).result()
        inside(session, training, 1)
        assert session.stats.iterations == 1
