"""One process of imports.py: MODEL CACHE. Prints a line for each module: step, name, growth in bytes without others.

Imports nothing that a program with ONNX Runtime would not have, or edgemem's modules would count as nothing.
"""

from __future__ import annotations

import importlib._bootstrap as bootstrap  # what `import` itself runs
import sys

import numpy as np

from tests.bench.serving import sessions


def resident() -> int:
    """Resident bytes now, read without edgemem and pathlib, which would be hidden."""
    with open("/proc/self/smaps_rollup", "rb") as lines:  # noqa: PTH123 - see above
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(b"Rss:"))


class Growth:
    """The growth of the resident memory around the load of each module, from now on."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str, int]] = []
        self.step = ""
        self._inner = [0]  # the growth within the modules that a module being loaded imports
        self._load = bootstrap._load_unlocked  # type: ignore[attr-defined]
        bootstrap._load_unlocked = self._measured  # type: ignore[attr-defined]

    def _measured(self, spec: object) -> object:
        self._inner.append(0)
        before = resident()
        try:
            return self._load(spec)
        finally:
            grown = resident() - before
            self.rows.append((self.step, spec.name, grown - self._inner.pop()))  # type: ignore[attr-defined]
            self._inner[-1] += grown


def main(path: str, cache: str) -> None:
    growth = Growth()
    growth.step = "import"
    import edgemem

    assert edgemem.InferenceSession is not None
    growth.step = "session"
    session = sessions.planned(path, cache=cache, background=False)
    # numpy.random would be counted, or hide what it imports.
    feeds = {i.name: np.ones(i.shape, np.float32) for i in session.get_inputs()}
    growth.step = "run"
    session.run(None, feeds)
    session.wait()
    session.run(None, feeds)
    assert session.memory.mode == "replay"
    for step, name, size in growth.rows:
        print(step, name, size)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
