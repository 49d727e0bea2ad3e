"""Where tasks run: on threads of this process, or on the workers of a Dask cluster."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from edgemem.errors import MissingDependencyError, ToolError
from edgemem.fleet.secrets import without_secrets
from edgemem.fleet.task import FleetRow
from edgemem.fleet.worker import run_task

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from concurrent.futures import Executor

    from edgemem.fleet.task import Task

__all__ = ["open_executor", "rows_of"]

_PATIENCE_S: Final = 30  # until a scheduler has to answer


@contextmanager
def open_executor(jobs: int, scheduler: str | None) -> Iterator[Executor]:
    """Threads, or the workers of a scheduler, which open the same paths and URLs and have the same edgemem installed.

    Raises MissingDependencyError without Dask, and ToolError where no scheduler answers.
    """
    if scheduler is None:
        with ThreadPoolExecutor(jobs, thread_name_prefix="fleet") as threads:
            try:
                yield threads
            finally:  # nothing is left to end unless an exception leaves the block
                threads.shutdown(wait=False, cancel_futures=True)
                for process in multiprocessing.active_children():
                    process.kill()
        return
    try:
        distributed: Any = import_module("distributed")
    except ImportError:
        raise MissingDependencyError(purpose="--scheduler", package="distributed") from None
    try:
        client = distributed.Client(scheduler, timeout=_PATIENCE_S, set_as_default=False)
    except (OSError, ValueError) as e:
        raise ToolError(without_secrets(f"no scheduler answers at {scheduler}: {e}", scheduler)) from None
    with client:
        yield client.get_executor(pure=False)


def rows_of(tasks: Sequence[Task], executor: Executor) -> Iterator[tuple[int, FleetRow]]:
    """The number and the row of each task, in the order in which they are done.

    Dask runs a task again whose worker was ended; one that ends each of its workers is a row. Raises ToolError if the
    cluster is gone; the cache then has the rows that are done.
    """
    numbers = {executor.submit(run_task, task): number for number, task in enumerate(tasks)}
    for future in as_completed(numbers):
        number = numbers.pop(future)
        try:
            row = future.result()
        except CancelledError:
            why = f"the scheduler is gone, and {len(numbers) + 1} models with it; run the same command again"
            raise ToolError(f"{why}, which goes on there") from None
        except Exception as e:  # noqa: BLE001 - of the cluster: `run_task` raises nothing
            row = FleetRow(tasks[number].name, tasks[number].label, status="crash", message=type(e).__name__, code=1)
        yield number, row
