"""One command on one model of several, in the process that `edgemem.fleet` made for it."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

import click

from edgemem.cli.failures import REPORTED, failure_of
from edgemem.cli.figures import figures_of
from edgemem.cli.main import main
from edgemem.errors import BudgetExceededError, EdgememError
from edgemem.fleet.process import MEMORY_LIMIT

if TYPE_CHECKING:
    from pathlib import Path

    from edgemem.fleet.task import Task

__all__ = ["run_command"]


def run_command(task: Task, path: Path) -> dict[str, Any]:
    """Fields of the row of a task whose model is at `path`, and `is_final` if it may be kept."""
    output = ["-o", task.output] if task.output else []
    command = main.commands[task.command]
    code = 0
    try:
        with redirect_stdout(io.StringIO()) as printed:
            arguments = [*task.arguments, *output, "--json", "--", str(path)]
            with command.make_context(task.command, arguments) as context:
                command.invoke(context)
    except SystemExit as e:
        code = e.code if isinstance(e.code, int) else 1
    except Exception as e:  # noqa: BLE001 - a fault of ours is a row, too
        is_over = task.memory is not None and isinstance(e, (MemoryError, ImportError))
        return dict(MEMORY_LIMIT) if is_over else _error(e)
    document = json.loads(printed.getvalue())
    figures, status, message = figures_of(task.command, document)
    kept = {"document": document} if task.with_document else {}
    return {"status": status, "message": message, "code": code, "is_final": True, "figures": figures, **kept}


def _error(error: Exception) -> dict[str, Any]:
    if not isinstance(error, (*REPORTED, click.ClickException)):
        return {"status": "crash", "message": f"{type(error).__name__}: {error}", "code": 1}
    message, code = failure_of(error)
    is_final = isinstance(error, EdgememError)  # others may not come again, such as those of a full disk
    figures = {"arena": error.required} if isinstance(error, BudgetExceededError) else {}
    status = type(error).__name__
    return {"status": status, "message": message, "code": code, "is_final": is_final, "figures": figures}
