"""How large a report page is, how soon it can be used, and how quickly its map zooms, in headless Chromium.

    python -m tests.bench.report_page

Pages of 10,000 operators with long names, and of 100,000 records. A gesture of 240 frames zooms in as far as the column
says, moves to and fro, and zooms out. "work" is the processor time of the page's thread for a frame: scripts, layout
and painting. "frame" is the median from one frame to the next, of which there is one every 16.7 ms, and "late" are
those that missed one; both ask for a machine that does nothing else. The processor draws; a GPU is not used.
"""

from __future__ import annotations

import tempfile
from math import log
from pathlib import Path
from statistics import median

import numpy as np

import edgemem
from edgemem.report.planned_memory import planned_memory
from edgemem.report.report_page import PageProof, ReportPage, page_html
from tests.chromium import Browser, need_chromium
from tests.unit.test_report_page import big_plan

_GESTURE = """(async () => {
  const canvas = document.querySelector('canvas.over'), box = canvas.getBoundingClientRect(), times = [];
  const frame = () => new Promise(requestAnimationFrame), far = (share) => box.left + 76 + (box.width - 88) * share;
  const wheel = (more) => canvas.dispatchEvent(new WheelEvent('wheel', {cancelable: true,
    clientX: far(0.5), clientY: box.top + box.height / 2, ...more}));
  for (let before = await frame(), k = 0; k < STEPS; k++) {
    const part = (4 * k) / STEPS;
    if (part < 1) wheel({deltaY: -DEEP / (STEPS / 4)});
    else if (part < 3) wheel({deltaY: part < 2 ? 12 : -12, shiftKey: true});
    else wheel({deltaY: DEEP / (STEPS / 4)});
    const now = await frame();
    times.push(now - before);
    before = now;
  }
  return times;
})()""".replace("STEPS", str(_STEPS := 240))


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
    print(f"{'page':18} {'bytes':>10} {'usable':>8} {'zoom':>6} {'work':>9} {'frame':>9} {'slowest':>9} {'late':>6}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for title, memory in pages.items():
            path = folder / "page.html"
            path.write_text(page_html(ReportPage(memory, PageProof(right=True))), encoding="utf-8")
            with Browser(need_chromium(), folder / title) as browser:
                browser.call("Performance.enable", timeDomain="threadTicks")
                ready = min(browser.open(path) for _ in range(3))
                for zoom in (8, 100, 1000):
                    before = _work_ms(browser)
                    times = browser.run(_GESTURE.replace("DEEP", str(log(zoom) / 0.006)))
                    work = (_work_ms(browser) - before) / len(times)
                    late = sum(time > 25 for time in times)
                    print(
                        f"{title:18} {path.stat().st_size:>10,} {ready:>6.2f} s {zoom:>5}x {work:>6.1f} ms"
                        f" {median(times):>6.1f} ms {max(times):>6.1f} ms {late:>6}"
                    )


def _work_ms(browser: Browser) -> float:
    """Processor time of the page's thread since it began: scripts, layout and painting."""
    metrics = browser.call("Performance.getMetrics")["metrics"]
    return float(next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration")) * 1e3


if __name__ == "__main__":
    main()
