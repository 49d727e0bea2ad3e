"""Proof that a plan is right, independent of how it was made.

Nothing here imports a strategy or the lifetime rules: plans, graphs, targets and four tables of what runtimes do
(`edgemem.model.aliasing`, `edgemem.model.control`, `edgemem.model.overlap`, `edgemem.model.slots`) are all it knows.
Its hot loops are a kernel of its own (kernels/proof), which shares no code with the planner's kernels although one
extension module holds both.
Arguments that share no code, each of which refutes a bad plan:

1. A sweep over time (`sweep`): records alive at the same operator never overlap in the arena, nor share an object,
   but as their relations allow; offsets are aligned, inside, where they are pinned and in no reserved range; sizes,
   bounds and counts are what they claim to be.
2. With the graph, records and tensors one to one (`matching`), and a rehearsal (`rehearsal`): the graph runs inside
   the plan on marks, and nothing is read after it was overwritten. Sizes, times and relations in the records do not
   count: what may overlap, or lie inside what, is derived from the graph (`permissions`).
3. For a recording, records and requests one to one (`recording`).
4. For a cycle, a sweep over several periods with the places that a loop replays (`periods`).

What is in a file beside the plan, as a runtime reads it, is compared in `edgemem.planning.verification`. `prove` is the
only maker of a `Proved`, which is what executors, exports and views take.
"""

from edgemem.proof.proved_plan import Proved, examine, prove, refuse
from edgemem.proof.relations import Regions, Relations
from edgemem.proof.sweep import sweep_plan
from edgemem.proof.verification import verify_planset
from edgemem.proof.violations import Cause, Violation

__all__ = [
    "Cause",
    "Proved",
    "Regions",
    "Relations",
    "Violation",
    "examine",
    "prove",
    "refuse",
    "sweep_plan",
    "verify_planset",
]
