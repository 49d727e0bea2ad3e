"""Writes docs/api.md from docstrings, and docs/cli.md from the command line's help.

    python docs/api.py            write both
    python docs/api.py --check    exit status 1 if one of them is not what would be written

Sources are parsed and not imported, so that no runtime has to be installed.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import edgemem
from edgemem.cli.main import main as command_line

Declaration = ast.ClassDef | ast.FunctionDef

_WIDTH = 78  # as click has it in a terminal of 80 columns
_SECTION = re.compile(r"^(Args|Attributes|Raises|Returns|Yields):$")
_ENTRY = re.compile(r"^([\w, .*]+): +(.*)$")
_PUBLIC = """\
These names are public: `edgemem.NAME`. Sizes are bytes and integers unless it says otherwise; `first_op` and `last_op`
are inclusive. What else can be imported may change."""
# What a user wants to do, and the names for it.
_GROUPS = {
    "Plan a model": (
        "load",
        "plan",
        "save",
        "PlanSet",
        "OffsetPlan",
        "SharedObjectsPlan",
        "lower_bounds",
        "strategies",
    ),
    "Plan records of your own": ("Problem", "UsageRecord", "Target"),
    "Shrink a model": ("shrink", "Shrunk"),
    "Order operators": ("order", "Ordering"),
    "Check a plan": ("verify",),
    "See and compare plans": ("save_report", "diff", "Difference", "check", "Checked"),
    "Run inside a plan": ("InferenceSession", "Interpreter", "GpuExecutor", "Arena", "DecoderState"),
}
_HAND = "<!-- Made by docs/api.py from the docstrings; change those. -->"


@dataclass(frozen=True, slots=True)
class Module:
    """A module's path inside the checkout and its syntax tree."""

    path: Path
    tree: ast.Module


def main(arguments: list[str]) -> int:
    """Write both pages, or compare them. Returns the exit status."""
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    pages = {ROOT / "docs" / "api.md": api_page(), ROOT / "docs" / "cli.md": cli_page()}
    if not arguments:
        for path, text in pages.items():
            path.write_text(text, encoding="utf-8")
        return 0
    stale = [p.name for p, text in pages.items() if not p.is_file() or p.read_text(encoding="utf-8") != text]
    if stale:
        print(f"{' and '.join(stale)}: not as the docstrings say; run: python docs/api.py", file=sys.stderr)
    return len(stale) > 0


def api_page() -> str:
    """The public names, the errors and the protocols."""
    grouped = [name for names in _GROUPS.values() for name in names]
    if sorted([*grouped, "EdgememError"]) != sorted(edgemem.__all__):
        raise LookupError("_GROUPS in docs/api.py has not every public name once")
    parts = ["# API reference", _HAND, _PUBLIC, "\n".join(map(contents_of, _GROUPS))]
    for title, names in _GROUPS.items():
        parts.append(f"# {title}")
        for name in names:
            parts += public(name)
    errors = parse("errors")
    parts += ["# Errors", *docstring(errors.tree), *public("EdgememError")]
    for error in declarations(errors.tree):
        if isinstance(error, ast.ClassDef) and error.name != "EdgememError":
            parts += [f"## edgemem.errors.{error.name}", *described(error)]
    formats = parse("formats")
    parts += ["# Formats and runtimes: edgemem.formats", *docstring(formats.tree)]
    for item in declarations(formats.tree):
        parts += [f"## edgemem.formats.{item.name}", *described(item)]
    for item in declarations(parse("formats.onnx_editing").tree):
        parts += [f"## edgemem.formats.{item.name}", *described(item)]
    passes = parse("passes.protocol")
    parts += ["# Passes: edgemem.passes.protocol", *docstring(passes.tree)]
    for item in declarations(passes.tree):
        parts += [f"## edgemem.passes.protocol.{item.name}", *described(item)]
    training = parse("torch")
    parts += ["# Training steps: edgemem.torch", *docstring(training.tree)]
    for line in training.tree.body:
        if isinstance(line, ast.ImportFrom) and (line.module or "").startswith("edgemem.torch."):
            for alias in line.names:
                module, declaration = find((line.module or "").removeprefix("edgemem."), alias.name)
                shown = described(declaration, called=alias.name, bases=bases_of(declaration, module))
                parts += [f"## edgemem.torch.{alias.name}", *shown]
    return "\n\n".join(parts) + "\n"


def contents_of(group: str) -> str:
    """A group's line in the table of contents."""
    return f"- {group}: " + " · ".join(f"[`{name}`](#edgemem{name.lower()})" for name in _GROUPS[group])


def public(name: str) -> Iterator[str]:
    """The section of a public name."""
    module, declaration = find(*edgemem._HOMES[name].split(":"))  # noqa: SLF001 - the table of where names live
    yield f"## edgemem.{name}"
    yield from described(declaration, called=name, bases=bases_of(declaration, module))


def cli_page() -> str:
    """The help of every command, as it prints it."""
    parts = [
        "# Command line",
        _HAND,
        "Exit codes are in [exit-codes.md](exit-codes.md).",
        *help_of(command_line, "edgemem"),
    ]
    for name, command in sorted(command_line.commands.items()):
        parts += [f"## {name}", *help_of(command, f"edgemem {name}")]
        if isinstance(command, click.Group):
            for below, inner in sorted(command.commands.items()):
                parts += [f"### {name} {below}", *help_of(inner, f"edgemem {name} {below}")]
    return "\n\n".join(parts) + "\n"


def help_of(command: click.Command, called: str) -> Iterator[str]:
    """A session that shows the help."""
    context = click.Context(
        command, info_name=called, terminal_width=_WIDTH, help_option_names=["-h", "--help"], color=False
    )
    text = "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
    yield f"```console\n$ {called} --help\n{text}\n```"


def parse(name: str) -> Module:
    """A module of edgemem by its dotted name."""
    path = ROOT / "edgemem" / name.replace(".", "/")
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return Module(path, ast.parse(path.read_text(encoding="utf-8")))


def find(name: str, attribute: str) -> tuple[Module, Declaration]:
    """Where a module's attribute is declared, through the imports that lead there."""
    module = parse(name)
    for node in module.tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == attribute:
            return module, node
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                if (alias.asname or alias.name) == attribute:
                    return find(node.module.removeprefix("edgemem."), alias.name)
    raise LookupError(f"edgemem.{name} has no {attribute}")


def declarations(tree: ast.Module | ast.ClassDef) -> Iterator[Declaration]:
    """The public classes and functions in a body."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
            yield node


def bases_of(node: Declaration, module: Module) -> tuple[ast.ClassDef, ...]:
    """The classes of the same module that a class inherits from."""
    if not isinstance(node, ast.ClassDef):
        return ()
    own = {d.name: d for d in module.tree.body if isinstance(d, ast.ClassDef)}
    return tuple(own[b.id] for b in node.bases if isinstance(b, ast.Name) and b.id in own)


def described(node: Declaration, *, called: str = "", bases: tuple[ast.ClassDef, ...] = ()) -> Iterator[str]:
    """A declaration and its docstring; for a class, also its public methods and properties."""
    called = called or node.name
    if isinstance(node, ast.FunctionDef):
        yield f"```pyi\n{function(node, called)}\n```"
        yield from docstring(node)
        return
    yield f"```pyi\n{class_header(node, called)}\n```"
    yield from docstring(node)
    for source in (node, *bases):
        for member in source.body:
            if isinstance(member, ast.FunctionDef) and (member.name == "__call__" or not member.name.startswith("_")):
                yield f"**`{called}.{member.name}`**"
                yield f"```pyi\n{function(member, member.name)}\n```"
                yield from docstring(member)


def class_header(node: ast.ClassDef, called: str) -> str:
    """`class` with what it inherits, its fields, and how it is made."""
    bases = ", ".join(ast.unparse(b) for b in node.bases if not ast.unparse(b).startswith("_"))
    lines = [f"class {called}({bases}):" if bases else f"class {called}:"]
    for member in node.body:
        if isinstance(member, ast.AnnAssign) and not ast.unparse(member.target).startswith("_"):
            lines.append(f"    {ast.unparse(member.target)}: {annotation(member.annotation)}{default(member.value)}")
        elif isinstance(member, ast.FunctionDef) and member.name == "__init__":
            lines += [f"    {line}" for line in function(member, "__init__").splitlines()]
    return "\n".join(lines if len(lines) > 1 else [f"{lines[0]} ..."])


def default(value: ast.expr | None) -> str:
    """` = VALUE` of a field; `...` where it is made by a call."""
    if value is None:
        return ""
    return " = ..." if isinstance(value, ast.Call) else f" = {source_of(value)}"


def source_of(node: ast.expr) -> str:
    """The source of an expression, with double quotes around texts as the formatter has them."""
    text = ast.unparse(node)
    return text if '"' in text else text.replace("'", '"')


def annotation(node: ast.expr | None) -> str:
    """The type, without quotes around it."""
    return "" if node is None else source_of(node).strip('"')


def function(node: ast.FunctionDef, called: str) -> str:
    """`def` with arguments and result, an argument a line where it is long."""
    decorators = "".join(
        f"@{name}\n"
        for d in node.decorator_list
        if (name := ast.unparse(d)) in ("property", "classmethod", "staticmethod", "cached_property")
    )
    result = f" -> {annotation(node.returns)}" if node.returns else ""
    arguments = list(arguments_of(node.args))
    flat = f"def {called}({', '.join(arguments)}){result}: ..."
    if len(flat) > _WIDTH:
        flat = "\n".join([f"def {called}(", *(f"    {a}," for a in arguments), f"){result}: ..."])
    return decorators + flat


def arguments_of(node: ast.arguments) -> Iterator[str]:
    """Each argument with its type and default, `*` and `/` included."""
    plain = [*node.posonlyargs, *node.args]
    defaults: list[ast.expr | None] = [None] * (len(plain) - len(node.defaults)) + list(node.defaults)
    for number, (argument, value) in enumerate(zip(plain, defaults, strict=True), 1):
        yield one_argument(argument, value)
        if number == len(node.posonlyargs):
            yield "/"
    if node.vararg:
        yield f"*{one_argument(node.vararg, None)}"
    elif node.kwonlyargs:
        yield "*"
    for argument, value in zip(node.kwonlyargs, node.kw_defaults, strict=True):
        yield one_argument(argument, value)
    if node.kwarg:
        yield f"**{one_argument(node.kwarg, None)}"


def one_argument(argument: ast.arg, value: ast.expr | None) -> str:
    """`name: type = default`."""
    typed = f"{argument.arg}: {annotation(argument.annotation)}" if argument.annotation else argument.arg
    if value is None:
        return typed
    return f"{typed} = {source_of(value)}" if argument.annotation else f"{typed}={source_of(value)}"


def docstring(node: ast.Module | Declaration) -> Iterator[str]:
    """The docstring as paragraphs of Markdown: sections are lists, indented text is a drawing."""
    raw = ast.get_docstring(node, clean=False)
    if raw is None:
        return
    for paragraph in paragraphs(inspect.cleandoc(raw)):
        first, *rest = paragraph
        if _SECTION.match(first):
            yield f"{first}\n\n{entries(rest)}"
        elif first.startswith("    "):
            yield "\n".join(["```text no-ci: part of a docstring", *(line[4:] for line in paragraph), "```"])
        else:
            yield "\n".join(paragraph)


def paragraphs(text: str) -> Iterator[list[str]]:
    """Lines between empty lines; those of one drawing stay together."""
    found: list[list[str]] = [[]]
    for line in text.splitlines():
        if line.strip():
            # A list or a drawing that follows without an empty line is a paragraph of its own.
            if found[-1] and line.startswith("    ") and not indented(found[-1]):
                found.append([])
            found[-1].append(line)
        elif found[-1]:
            found.append([])
    joined: list[list[str]] = []
    for paragraph in filter(None, found):
        if joined and paragraph[0].startswith("    ") and joined[-1][0].startswith("    "):
            joined[-1] += ["", *paragraph]
        else:
            joined.append(paragraph)
    yield from joined


def indented(paragraph: list[str]) -> bool:
    """Whether a paragraph is a section or a drawing, which indented lines belong to."""
    return paragraph[0].startswith("    ") or bool(_SECTION.match(paragraph[0]))


def entries(lines: Iterable[str]) -> str:
    """The entries of a section as a list; those without a name are text."""
    made: list[str] = []
    for line in lines:
        entry = _ENTRY.match(line[4:]) if not line.startswith("     ") else None
        if entry:
            made.append(f"- `{entry[1]}`: {entry[2]}")
        else:
            made.append(f"  {line.strip()}")
    return "\n".join(made)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
