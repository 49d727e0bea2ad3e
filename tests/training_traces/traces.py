"""Seeded traces of large-model training, as an allocator of one rank sees it.

python -m tests.training_traces.traces moe                     # what PyTorch's caching allocator makes of it
python -m tests.training_traces.traces moe_recompute --svg .   # and a picture of it

Why the caching allocator wastes memory in these traces, as it does in the runs that they stand for:

- Lifetimes of different kinds are interleaved. What a backward pass needs lives for a whole trip through the pipeline;
  it is asked for between buffers that are freed at once. Best fit puts it into holes that those left behind, the hole
  is split, and the next buffer of the old size needs a segment of its own.
- Recomputation makes this worse: the inputs that are kept are small and live long, the tensors of the layer that is run
  again are large and short-lived, and both come from the same segments by turns.
- A virtual pipeline starts and ends passes of several chunks by turns, so that what is freed together was not
  asked for together.
- A mixture of experts asks for sizes that depend on the data. They hardly ever fit what was freed before.
- ZeRO gathers and reduces on streams of their own, and the allocator keeps free blocks of each stream apart.
- The optimizer makes its states at the end of the first iteration, in the holes of that iteration's activations.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from edgemem.report.fragmentation import fragmentation_svg
from edgemem.trace.caching import CachingSettings, simulate
from tests.training_traces.rank import Rank
from tests.training_traces.setup import SETUPS, TrainingSetup

if TYPE_CHECKING:
    from edgemem.trace.trace import Trace

__all__ = ["SETUPS", "TrainingSetup", "training_trace"]


def training_trace(setup: TrainingSetup) -> Trace:
    """The trace of one rank; equal setups give equal traces.

    Weights, gradients and optimizer states are asked for once and never freed. Iterations are equal from the second
    one on, but for the sizes in dynamic sections.
    """
    return Rank(setup).run()


def main() -> None:
    """A line for each named setup."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("setups", nargs="*", default=list(SETUPS), help="names; all by default")
    parser.add_argument("--svg", type=Path, metavar="FOLDER", help="where to write a picture of each, as NAME.svg")
    arguments = parser.parse_args()
    for name in arguments.setups:
        trace = training_trace(SETUPS[name])
        plain, expandable = simulate(trace), simulate(trace, CachingSettings(expandable_segments=True))
        print(
            f"{name:28} {len(trace):8,} events  allocated {plain.allocated_peak / 2**30:6.2f} GiB  "
            f"reserved {plain.reserved_peak / 2**30:6.2f} GiB  efficiency {plain.efficiency:6.1%}  "
            f"with expandable segments {expandable.efficiency:6.1%}"
        )
        if arguments.svg:
            picture = fragmentation_svg(plain, f"{name}: PyTorch's caching allocator")
            (arguments.svg / f"{name}.svg").write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
