"""Draws docs/android.svg: the screen of the demo app, as the app's own code drew it on a JVM.

python docs/android_figures.py demo.apk

The package has to hold libraries for x86_64; docs/mobile.md says how to make one. The program needs what the tests of
packages need (CONTRIBUTING.md).
"""

from __future__ import annotations

import re
import sys
import tempfile
from html import escape
from pathlib import Path

from drawing import Drawing

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.android.jvm import install

WIDE, LINE, SCALE = 660, 17, 0.59
DARK, BRIGHT, ACCENT = "#0a0e13", "#e8eef4", "#2ee6a8"
RECTANGLE = re.compile(r"rect (\S+) (\S+) (\S+) (\S+) #ff(\w{6}) FILL")
EDGE = re.compile(r"line (\S+) (\S+) (\S+) (\S+) #ff(\w{6})")
TEXT = re.compile(r"text (\S+) (\S+) (.+)")


def draw(package: Path) -> None:
    """Start the app, wait for five runs, and write its screen beside this file."""
    with tempfile.TemporaryDirectory() as folder:
        screen = install(package, Path(folder)).run("until", "status", "^5 runs done")
    # What is measured of this machine is left out.
    memory = [line for line in screen["memory"]["text"].splitlines() if not line.startswith("whole app")]
    answer = screen["answer"]["text"].splitlines()
    below = [*memory, "", *answer]
    top, tall = 104, 296
    picture = Drawing(WIDE, top + tall + 16 + LINE * len(below), "Memory map of a face detector in the demo app")
    picture.parts.append(f'<rect width="{picture.width}" height="{picture.height}" fill="#151b23"/>')

    def write(x: float, y: float, text: str, size: int, colour: str = BRIGHT, family: str = "sans-serif") -> None:
        picture.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-family="{family}" fill="{colour}" '
            f'xml:space="preserve">{escape(text)}</text>'
        )

    write(10, 20, screen["title"]["text"], 12)
    write(10, 52, screen["headline"]["text"], 26)
    write(10, 74, screen["subline"]["text"], 12, ACCENT)
    write(10, 94, screen["source"]["text"], 12)
    picture.parts.append(f'<g transform="translate(10 {top}) scale({SCALE})">')
    picture.parts.append(f'<rect width="1080" height="480" fill="{DARK}"/>')
    for shape in screen["map"]["drawn"]:
        if found := RECTANGLE.fullmatch(shape):
            left, up, right, down = map(float, found.groups()[:4])
            picture.parts.append(
                f'<rect x="{left:g}" y="{up:g}" width="{right - left:g}" height="{down - up:g}" fill="#{found[5]}"/>'
            )
        elif found := EDGE.fullmatch(shape):
            x1, y1, x2, y2 = map(float, found.groups()[:4])
            picture.parts.append(
                f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="#{found[5]}" stroke-width="2"/>'
            )
        elif found := TEXT.fullmatch(shape):
            write(float(found[1]), float(found[2]), found[3], 20)
    picture.parts.append("</g>")
    for number, line in enumerate(below, 1):
        write(10, top + tall + LINE * number, line, 12, family="monospace")
    picture.save("android.svg")


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
