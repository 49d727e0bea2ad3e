"""Whether a command printed what a page shows.

Times are not compared (`98 ms` stands for any time), nor spaces at the end of a line. In what a page shows, a line
`...` stands for any lines, also none, and `...` within a line for any text.
"""

from __future__ import annotations

import re

__all__ = ["mismatch"]

_TIMES = re.compile(r"\b\d[\d,]*(?:\.\d+)?(?= (?:ms|us|s)\b)")


def mismatch(shown: str, printed: str) -> str:
    """What differs, for people; "" if the output is as shown."""
    wanted = [line.rstrip() for line in shown.strip("\n").splitlines()]
    pattern = "".join(_line_pattern(line) for line in wanted)
    actual = "".join(f"{line.rstrip()}\n" for line in printed.strip("\n").splitlines())
    if re.fullmatch(pattern, _TIMES.sub("0", actual)):
        return ""
    return f"the page shows\n{shown.rstrip()}\n\nand the command printed\n{printed.rstrip()}"


def _line_pattern(line: str) -> str:
    if line.strip() == "...":
        return r"(?:.*\n)*?"
    parts = _TIMES.sub("0", line).split("...")
    return ".*".join(map(re.escape, parts)) + r"\n"
