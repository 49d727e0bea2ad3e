"""Records training steps with an optimizer as operator logs, for `tests/bench/remat/policies.py`.

    python tests/bench/remat/record.py FOLDER [--iterations 3] [--models unet,gpt,lstm,bert]

The models are those of `tests/torch/steps.py`, in the size of benchmarks; the optimizer is SGD with momentum. Needs
PyTorch. Times are measured on one thread.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[3]))

import torch

from tests.bench.remat.operator_log_file import save_operator_log
from tests.bench.remat.recorder import record_operators
from tests.torch.steps import NAMES, make_step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--iterations", type=int, default=3)
    parser.add_argument("--models", default="unet,gpt,lstm,bert", help=f"of {', '.join(NAMES)}")
    given = parser.parse_args()
    torch.set_num_threads(1)
    for name in given.models.split(","):
        step = make_step(name, small=False)
        optimizer = torch.optim.SGD(step.model.parameters(), 0.01, momentum=0.9)

        def train(step: object = step, optimizer: torch.optim.Optimizer = optimizer) -> None:
            for _ in range(given.iterations):
                optimizer.zero_grad()
                step.loss()  # type: ignore[attr-defined]
                optimizer.step()

        path = given.folder / f"{name}-{given.iterations}-iterations.npz"
        log = record_operators(train)
        save_operator_log(log, path)
        print(f"{path}: {log}")


if __name__ == "__main__":
    main()
