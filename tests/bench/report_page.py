"""How large a report page is, how soon it can be used, and how quickly its map zooms, in headless Chromium.

    python -m tests.bench.report_page

A row for 10,000 operators with long names, and one for 100,000 records. Frames are those of 60 steps of zooming, drawn
by the processor; a GPU is not used.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import median

import numpy as np

import edgemem
from edgemem.report.planned_memory import planned_memory
from edgemem.report.report_page import PageProof, ReportPage, page_html
from tests.chromium import Browser, need_chromium
from tests.unit.test_report_page import big_plan

_ZOOM = """(async () => {
  const canvas = document.querySelector('canvas.over'), box = canvas.getBoundingClientRect(), times = [];
  for (let k = 0; k < 60; k++) {
    const begin = performance.now();
    canvas.dispatchEvent(new WheelEvent('wheel', {deltaY: k < 30 ? -20 : 20, cancelable: true,
      clientX: box.left + box.width / 2, clientY: box.top + box.height / 2}));
    await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
    times.push(performance.now() - begin);
  }
  return times;
})()"""


def random_records(count: int) -> edgemem.PlanSet:
    """Requests of a program: short and long ones, of all sizes."""
    rng = np.random.default_rng(0)
    first = rng.integers(0, 2 * count, count)
    sizes, lengths = rng.integers(1, 1 << 20, count) * 64, rng.integers(1, 200, count)
    names = [f"request {k}" for k in range(count)]
    problem = edgemem.Problem.from_arrays(first, first + lengths, sizes, names=names)
    return edgemem.plan(problem, strategy="greedy_by_size")


def main() -> None:
    """Print the table."""
    pages = {
        "10,000 operators": planned_memory(*big_plan()),
        "100,000 records": planned_memory(random_records(100_000)),
    }
    print(f"{'page':18} {'bytes':>10} {'usable':>8} {'frame':>8} {'slowest':>8}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for title, memory in pages.items():
            path = folder / "page.html"
            path.write_text(page_html(ReportPage(memory, PageProof(right=True))), encoding="utf-8")
            with Browser(need_chromium(), folder / title) as browser:
                ready = min(browser.open(path) for _ in range(3))
                times = browser.run(_ZOOM)
            print(
                f"{title:18} {path.stat().st_size:>10,} {ready:>6.2f} s {median(times):>5.0f} ms {max(times):>5.0f} ms"
            )


if __name__ == "__main__":
    main()
