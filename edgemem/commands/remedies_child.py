"""A process that makes changes of a model, one after the other, and gives an answer about each."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgemem import api
from edgemem.commands.changed_model import change_model, kept_states
from edgemem.commands.changed_plan import plan_changed_model
from edgemem.errors import BudgetExceededError, EdgememError
from edgemem.formats import Bindings, Model
from edgemem.formats.workspace import graph_under
from edgemem.schedule.peak import peak_of
from edgemem.system.child_call import Message, serve
from edgemem.system.files import temporary_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_MOST = 160  # characters of a reason


def _answers(question: Message) -> Iterator[Message]:
    """What each candidate of a task of `edgemem.commands.remedies` comes to."""
    task = question.data
    begun = time.process_time()
    for wanted, kernels in task["candidates"]:
        if time.process_time() - begun > task["limit_s"]:
            return
        try:
            yield Message(_tried(task, wanted, kernels))
        except EdgememError as e:
            yield Message({"size": None, "refusal": str(e).splitlines()[0][:_MOST]})


def _tried(task: Mapping[str, Any], wanted: Mapping[str, Mapping[str, str]], kernels: str | None) -> dict[str, Any]:
    budget, alignment = task["budget"], task["alignment"]
    bindings = Bindings.of(task["bindings"]["dims"], task["bindings"]["shapes"])
    try:
        with temporary_folder() as folder:
            prepared = change_model(
                Path(task["path"]),
                folder,
                wanted,
                bindings=bindings,
                target=task["target"],
                alignment=alignment,
                kernels=kernels,
            )
            model, target = prepared.model, prepared.target
            if isinstance(model, Model) and target is not None and not prepared.others:
                bound = peak_of(graph_under(model, target), target)
                if bound > budget:
                    return {"size": bound}
            _, planset = plan_changed_model(
                prepared,
                lambda made, rules: api.plan(
                    made,
                    target=rules,
                    budget=budget,
                    states=kept_states(made) if "state" in wanted else None,
                    **task["plan"],
                ),
            )
    except BudgetExceededError as e:
        return {"size": e.required}
    best = planset.best_offsets or planset.best_shared_objects
    return {"size": best.size if best is not None else 0, "fits": True}


if __name__ == "__main__":
    serve(_answers)
