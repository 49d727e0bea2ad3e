"""Where tasks run: on threads of this process, each with a child process, or on the workers of a Dask cluster."""

from __future__ import annotations

import time
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final

from edgemem.errors import MissingDependencyError, ToolError
from edgemem.fleet.secrets import without_secrets
from edgemem.fleet.task import FleetRow
from edgemem.fleet.worker import run_task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from edgemem.fleet.task import Task

__all__ = ["Workers", "rows_of", "workers_of"]

_TRIES: Final = 3  # of a task whose cluster lost it
_LOOK_S: Final = 0.1  # between looks at a client that reconnects
_PAUSE_S: Final = 2.0  # between looks at whether the scheduler is there
_PATIENCE_S: Final = 30  # until a scheduler has to answer


@dataclass(frozen=True, slots=True)
class Workers:
    """Where tasks are sent.

    Attributes:
        submit: sends one.
        is_there: whether the tasks that it took will come to an end; a scheduler may go, and come back no more.
    """

    submit: Callable[[Callable[[Task], FleetRow], Task], Future[FleetRow]]
    is_there: Callable[[], bool] = lambda: True


class _Cluster:
    """A client of Dask. Its own executor frees futures while the client reconnects, which ends that with an error."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._sent: dict[Future[FleetRow], Any] = {}
        self._running_s = time.monotonic()

    def submit(self, work: Callable[[Task], FleetRow], task: Task) -> Future[FleetRow]:
        made: Future[FleetRow] = Future()
        end = time.monotonic() + _PATIENCE_S
        while self._client.status == "connecting" and time.monotonic() < end:
            time.sleep(_LOOK_S)  # it forgets what it is given before it has reconnected
        self._sent[made] = sent = self._client.submit(work, task, pure=False)
        made.add_done_callback(lambda _: sent.cancel() if made.cancelled() else None)
        sent.add_done_callback(partial(self._end, made))
        return made

    def is_there(self) -> bool:
        now = time.monotonic()
        if self._client.status == "running":
            self._running_s = now
        return self._client.status != "closed" and now - self._running_s < 2 * _PATIENCE_S

    def _end(self, made: Future[FleetRow], sent: Any) -> None:
        if not made.set_running_or_notify_cancel():
            return
        try:
            row = sent.result()
        except BaseException as e:  # noqa: BLE001 - whatever ended it; CancelledError where the client forgot it
            made.set_exception(e)
        else:
            del self._sent[made]
            made.set_result(row)


@contextmanager
def workers_of(jobs: int, scheduler: str | None) -> Iterator[Workers]:
    """Threads, or the workers of a scheduler, which open the same paths and URLs and have the same edgemem installed.

    Raises MissingDependencyError without Dask, and ToolError where no scheduler answers.
    """
    if scheduler is None:
        threads = ThreadPoolExecutor(jobs, thread_name_prefix="fleet")
        try:
            yield Workers(threads.submit)
        finally:
            threads.shutdown(cancel_futures=True)
        return
    try:
        distributed: Any = import_module("distributed")
    except ImportError:
        raise MissingDependencyError(purpose="--scheduler", package="distributed") from None
    try:
        client = distributed.Client(scheduler, timeout=_PATIENCE_S, set_as_default=False)
    except (OSError, ValueError) as e:
        raise ToolError(without_secrets(f"no scheduler answers at {scheduler}: {e}", scheduler)) from None
    try:
        cluster = _Cluster(client)
        yield Workers(cluster.submit, cluster.is_there)
    finally:
        client.close()


def rows_of(
    tasks: Sequence[Task], workers: Workers, is_needed: Callable[[int], bool] | None = None
) -> Iterator[tuple[int, FleetRow]]:
    """The number and the row of each task that is still needed, in the order in which they are done.

    A task whose worker was ended runs again, as the executor has it, and one that the cluster forgot is sent again. A
    task that fails there each time is a row. Raises ToolError if the cluster is gone; the cache then has the rows
    that are done.
    """
    tries = dict.fromkeys(range(len(tasks)), 0)
    numbers: dict[Future[FleetRow], int] = {}
    ended: SimpleQueue[Future[FleetRow]] = SimpleQueue()
    forgotten = list(tries)
    while forgotten or numbers:
        for number in forgotten:
            tries[number] += 1
            try:
                future = workers.submit(run_task, tasks[number])
            except Exception:  # noqa: BLE001 - each version of Dask has its own, of a closed client
                raise _gone(len(tasks)) from None
            numbers[future] = number
            future.add_done_callback(ended.put)
        forgotten = []
        try:
            future = ended.get(timeout=_PAUSE_S)
        except Empty:
            if not workers.is_there():
                raise _gone(len(numbers)) from None
            continue
        ended_number = numbers.pop(future, None)
        if ended_number is None:  # it was not needed
            continue
        try:
            row = future.result()
        except Exception as e:  # noqa: BLE001 - of the cluster: `run_task` raises nothing
            if tries[ended_number] < _TRIES:
                forgotten.append(ended_number)
                continue
            if isinstance(e, CancelledError):
                raise _gone(len(numbers) + 1) from None
            task = tasks[ended_number]
            row = FleetRow(task.name, task.label, status="crash", message=type(e).__name__, code=1)
        yield ended_number, row
        if is_needed is not None:
            for future in [future for future, number in numbers.items() if not is_needed(number)]:
                del numbers[future]
                future.cancel()


def _gone(count: int) -> ToolError:
    return ToolError(
        f"the scheduler is gone, and {count} models with it; run the same command again, which goes on there"
    )
