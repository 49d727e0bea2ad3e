"""Where tasks run: on threads of this process, each with a child process, or on the workers of a Dask cluster."""

from __future__ import annotations

from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from edgemem.errors import MissingDependencyError, ToolError
from edgemem.fleet.task import FleetRow
from edgemem.fleet.worker import run_task

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from concurrent.futures import Executor, Future

    from edgemem.fleet.task import Task

__all__ = ["executor_of", "rows_of"]

_TRIES: Final = 3  # of a task whose cluster lost it
_PATIENCE_S: Final = 30  # until a scheduler has to answer


@contextmanager
def executor_of(jobs: int, scheduler: str | None) -> Iterator[Executor]:
    """Threads, or the workers of a scheduler, which open the same paths and URLs and have the same edgemem installed.

    Raises MissingDependencyError without Dask, and ToolError where no scheduler answers.
    """
    if scheduler is None:
        executor: Any = ThreadPoolExecutor(jobs, thread_name_prefix="fleet")
        try:
            yield executor
        finally:
            executor.shutdown(cancel_futures=True)
        return
    try:
        distributed: Any = import_module("distributed")
    except ImportError:
        raise MissingDependencyError(purpose="--scheduler", package="distributed") from None
    try:
        client = distributed.Client(scheduler, timeout=_PATIENCE_S, set_as_default=False)
    except (OSError, ValueError) as e:
        raise ToolError(f"no scheduler answers at {scheduler}: {e}") from None
    with client:
        executor = client.get_executor(pure=False)
        try:
            yield executor
        finally:
            executor.shutdown(wait=False)


def rows_of(tasks: Sequence[Task], executor: Executor) -> Iterator[tuple[int, FleetRow]]:
    """The number and the row of each task, in the order in which they are done.

    A task whose worker was ended runs again, as the executor has it, and one that the cluster forgot is sent again. A
    task that ends its workers each time is a row. Raises ToolError if the cluster is gone; the cache then has the rows
    that are done.
    """
    waiting = list(range(len(tasks)))
    for _ in range(_TRIES):
        futures = _submitted(tasks, waiting, executor)
        waiting = []
        for future in as_completed(futures):
            number = futures[future]
            try:
                yield number, future.result()
            except CancelledError:
                waiting.append(number)
            except Exception as e:  # noqa: BLE001 - of the cluster: `run_task` raises nothing
                task = tasks[number]
                yield number, FleetRow(task.name, task.label, status="crash", message=type(e).__name__, code=1)
        if not waiting:
            return
    raise ToolError(f"the scheduler lost {len(waiting)} tasks; run the same command again, which goes on from there")


def _submitted(tasks: Sequence[Task], numbers: Sequence[int], executor: Executor) -> dict[Future[FleetRow], int]:
    try:
        return {executor.submit(run_task, tasks[number]): number for number in numbers}
    except RuntimeError as e:  # its client was closed
        raise ToolError(f"the scheduler is gone ({e}); run the same command again, which goes on from there") from None
