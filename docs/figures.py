"""Draws docs/plan.svg: one network's tensors in time and memory, without a plan and with one.

python docs/figures.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.collections import PolyCollection

sys.path.insert(0, str(Path(__file__).parents[1]))

import edgemem
from models.build import records

NETWORK = "mobilenet_v2"
MIB = 2**20


def main() -> None:
    """Write the figure beside this file."""
    mpl.rcParams.update(
        {"svg.hashsalt": "edgemem", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
    )
    names, first, last, size = zip(*records(NETWORK), strict=True)
    problem = edgemem.Problem.from_arrays(first, last, size, names=names)
    planset = edgemem.plan(problem, strategy=["offsets/naive", "offsets/greedy_in_order", "offsets/greedy_by_size"])
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.4), sharey=True, layout="constrained")
    for axis, plan in zip(axes, planset.offsets, strict=True):
        low = plan.offsets / MIB
        corners = np.stack(
            [
                np.stack([problem.first_op, low], 1),
                np.stack([problem.last_op + 1, low], 1),
                np.stack([problem.last_op + 1, low + problem.size / MIB], 1),
                np.stack([problem.first_op, low + problem.size / MIB], 1),
            ],
            1,
        )
        colours = plt.get_cmap("viridis")(np.linspace(0.15, 0.9, len(problem)))
        axis.add_collection(PolyCollection(list(corners), facecolors=colours, edgecolors="white", linewidths=0.4))
        axis.axhline(planset.bounds.offsets / MIB, color="crimson", linewidth=1, linestyle="--")
        axis.set_xlim(0, int(problem.last_op.max()) + 1)
        axis.set_ylim(0, planset.naive / MIB)
        axis.set_title(f"{plan.strategy}: {plan.size / MIB:.2f} MiB")
        axis.set_xlabel("operator")
    axes[0].set_ylabel("MiB")
    axes[0].text(28, planset.bounds.offsets / MIB + 0.4, "lower bound", color="crimson")
    figure.savefig(Path(__file__).with_name("plan.svg"), metadata={"Date": None})


if __name__ == "__main__":
    main()
