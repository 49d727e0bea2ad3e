"""What a check found, in the forms that people, pull requests and CI read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from edgemem.report.markdown import escaped, table
from edgemem.report.sizes import size_text

if TYPE_CHECKING:
    from edgemem.guard.check import Checked, CheckedModel

__all__ = ["check_data", "check_markdown", "github_lines", "junit_xml", "model_line"]


def model_line(model: CheckedModel) -> str:
    """`ok    models/a.tflite: 158.00 KiB of 256.00 KiB`: one model."""
    verdict = "ok" if model.status == "ok" else "FAIL"
    told = ", ".join(filter(None, (_sizes(model), model.text)))
    return f"{verdict:<4}  {model.name}: {'; '.join(filter(None, (told, model.not_counted)))}"


def _sizes(model: CheckedModel) -> str:
    if model.memory is None:
        return ""
    taken = size_text(model.memory.memory, texels=model.memory.unit == "texels")
    if model.budget is not None:
        taken = f"{taken} of {size_text(model.budget)}"
    return taken if model.memory.recorded is None else f"{taken} in a session, as recorded"


def check_data(checked: Checked) -> dict[str, Any]:
    """JSON-ready; docs/json.md describes it."""
    return {
        "right": checked.is_right,
        "models": [
            {
                "name": m.name,
                "path": str(m.path),
                "status": m.status,
                "text": m.text,
                "memory": m.memory.memory if m.memory else None,
                "arena": m.memory.arena if m.memory else None,
                "tail": m.memory.tail if m.memory else None,
                "lower_bound": m.memory.lower_bound if m.memory else None,
                "unit": m.memory.unit if m.memory else None,
                "counts": m.memory.counts if m.memory else None,
                "not_counted": m.not_counted,
                "budget": m.budget,
                "baseline": m.baseline.memory if m.baseline else None,
            }
            for m in checked.models
        ],
        "gone": list(checked.gone),
    }


def check_markdown(checked: Checked) -> str:
    """A table for a pull request; what fails stands first."""
    failed = sum(m.status != "ok" for m in checked.models)
    count = len(checked.models)
    head = (
        f"{failed:,} of {count:,} models fail" if failed else f"{count:,} model{'s' * (count != 1)}, all within limits"
    )
    rows = [
        (
            m.name,
            f"{m.memory.memory:,}" if m.memory else "",
            f"{m.baseline.memory:,}" if m.baseline else "",
            f"{m.budget:,}" if m.budget is not None else "",
            f"{m.memory.lower_bound + m.memory.tail:,}" if m.memory and m.memory.recorded is None else "",
            _result(m),
        )
        for m in sorted(checked.models, key=lambda m: m.status == "ok")
    ]
    lines = [f"**{head}**", "", *table(("model", "memory", "before", "budget", "lower bound", "result"), rows)]
    if checked.gone:
        lines += ["", f"No longer there: {escaped(', '.join(checked.gone))}"]
    return "\n".join(lines) + "\n"


def _result(model: CheckedModel) -> str:
    told = ", ".join(filter(None, ("" if model.status == "ok" else model.status.upper(), model.text))) or "ok"
    return "; ".join(filter(None, (told, model.not_counted)))


def github_lines(checked: Checked) -> list[str]:
    """Workflow commands of GitHub Actions, which stand beside the files in a pull request.

    An error a failing model, and a warning for one whose budget is compared with a part of what it takes.
    """
    told = [("error", m, m.text) for m in checked.models if m.status != "ok"]
    told += [
        ("warning", m, m.not_counted)
        for m in checked.models
        if m.status == "ok" and m.budget is not None and m.not_counted
    ]
    return [
        f"::{kind} file={_command(str(m.path), ',:')},title=edgemem::{_command(f'{m.name}: {text}')}"
        for kind, m, text in told
    ]


def _command(text: str, more: str = "") -> str:
    return "".join(f"%{ord(c):02X}" if c in "%\r\n" + more else c for c in text)


def junit_xml(checked: Checked) -> str:
    """A test case a model, as CI services read them."""
    failed = [m for m in checked.models if m.status not in ("ok", "error")]
    errors = [m for m in checked.models if m.status == "error"]
    counts = {"tests": len(checked.models), "failures": len(failed), "errors": len(errors)}
    suite = ET.Element("testsuite", {"name": "edgemem check", **{k: str(v) for k, v in counts.items()}})
    for m in checked.models:
        case = ET.SubElement(suite, "testcase", {"classname": "edgemem", "name": _xml(m.name)})
        if m.status != "ok":
            tag = "error" if m.status == "error" else "failure"
            ET.SubElement(case, tag, {"message": _xml(m.text), "type": m.status})
        elif told := "; ".join(filter(None, (m.text, m.not_counted))):
            ET.SubElement(case, "system-out").text = _xml(told)
    return ET.tostring(suite, encoding="unicode", xml_declaration=False) + "\n"


def _xml(text: str) -> str:
    """Without characters that XML does not take."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
