"""Mutation tests: small changes of a package or a module, one at a time; a test has to notice each.

    python -m tests.mutants edgemem/proof --count 300 tests/unit/test_proof.py tests/unit/test_proof_forgeries.py ...

A mutant is made in a forked process, in which the code of the package's functions is replaced, so that nothing is
imported anew. Files of tests run one after the other until one fails: name those first that are fast and notice much.
Mutants are drawn evenly from all places where one can be; `--seed` draws others, `--only FILE:NUMBER` repeats one. What
survives is printed with its line, before and after: a test is missing, or the change changes nothing.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import signal
import sys
import time
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_LIMIT_S = 120  # of one mutant's tests: an endless loop is noticed
_COMPARED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
_COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}


def _variants(node: ast.AST) -> Iterator[ast.AST]:
    """What a node may become."""
    if isinstance(node, ast.Compare):
        for k, op in enumerate(node.ops):
            for other in _COMPARED.get(type(op), ()):
                made = copy.deepcopy(node)
                made.ops[k] = other()
                yield made
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
        for k in range(len(node.values)):
            rest = [value for n, value in enumerate(node.values) if n != k]
            yield rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield node.operand
    elif isinstance(node, ast.BinOp) and type(node.op) in _COMPUTED:
        yield ast.BinOp(node.left, _COMPUTED[type(node.op)](), node.right)
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        yield ast.Constant(node.value + 1)
    elif isinstance(node, ast.If | ast.IfExp | ast.While):
        for value in (True, False) if not isinstance(node, ast.While) else (False,):
            chosen = copy.copy(node)
            chosen.test = ast.Constant(value)
            yield chosen
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Yield | ast.YieldFrom):
        yield ast.Expr(ast.YieldFrom(ast.Tuple([], ast.Load())))
    elif (
        isinstance(node, ast.Raise)
        or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call))
        or isinstance(node, ast.Continue | ast.Break)
    ):
        yield ast.Pass()


class _Mutation(ast.NodeTransformer):
    """Changes the place of a number in the functions of a module; without a number it counts them."""

    def __init__(self, number: int = -1) -> None:
        self.count = 0
        self.line = 0
        self.after = ""
        self._number = number
        self._is_inside = False

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        was, self._is_inside = self._is_inside, True
        node.body = [self.visit(each) for each in node.body]
        self._is_inside = was
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        changed: ast.AST | None = None
        for made in _variants(node) if self._is_inside else ():
            if self.count == self._number:
                changed = ast.copy_location(made, node)
                self.line = getattr(node, "lineno", 0)
                self.after = ast.unparse(changed).splitlines()[0]
            self.count += 1
        super().generic_visit(node)
        return node if changed is None else changed


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _functions(module: Any) -> Iterator[FunctionType]:
    """The functions and methods that a module defines."""
    for value in list(vars(module).values()):
        if getattr(value, "__module__", None) != module.__name__:
            continue
        members = list(vars(value).values()) if isinstance(value, type) else [value]
        for member in members:
            found = getattr(member, "fget", None) or getattr(member, "__func__", None) or member
            found = getattr(found, "__wrapped__", found)
            if isinstance(found, FunctionType) and found.__module__ == module.__name__:
                yield found


def _apply(file: Path, module: Any, number: int) -> None:
    tree = _Mutation(number).visit(ast.parse(file.read_text(encoding="utf-8")))
    made = compile(ast.fix_missing_locations(tree), str(file), "exec")
    codes = {code.co_qualname: code for code in _codes(made)}
    for function in _functions(module):
        new = codes.get(function.__qualname__)
        if new is not None and new.co_freevars == function.__code__.co_freevars:
            function.__code__ = new


def _fails(tests: Sequence[str]) -> bool:
    """Whether one of the files of tests fails; they run in this order, as far as the first that does."""
    options = ("-x", "-q", "-n0", "-p", "no:cacheprovider")
    codes = []
    for each in tests:
        codes.append(pytest.main([*options, each]))
        if codes[-1] not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):  # the latter: all are left out
            return True
    return pytest.ExitCode.OK not in codes


def _begin(file: Path, module: Any, number: int, tests: Sequence[str]) -> int:
    """Run the tests on one mutant, or on what there is with the number -1, in a child; its process number."""
    child = os.fork()
    if not child:
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        signal.alarm(_LIMIT_S)
        is_noticed = True
        try:
            _apply(file, module, number)
            is_noticed = _fails(tests)
        finally:
            os._exit(is_noticed)
    return child


def _tried(
    drawn: Sequence[tuple[Path, int]], modules: Mapping[Path, Any], tests: Sequence[str], jobs: int
) -> Iterator[tuple[Path, int, bool]]:
    """Every mutant as its tests end, and whether it survived them; an endless loop does not."""
    running: dict[int, tuple[Path, int]] = {}
    for file, number in drawn:
        if len(running) >= jobs:
            yield _ended(running)
        running[_begin(file, modules[file], number, tests)] = file, number
    while running:
        yield _ended(running)


def _ended(running: dict[int, tuple[Path, int]]) -> tuple[Path, int, bool]:
    child, status = os.wait()
    return (*running.pop(child), os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0)


def main() -> int:
    """Print what survives; exit code 1 if it is more than was asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("package", type=Path, help="or a module's file")
    parser.add_argument("tests", nargs="+")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="mutants at once")
    parser.add_argument("--least", type=float, default=100, metavar="PERCENT", help="that tests have to notice")
    parser.add_argument("--only", action="append", default=[], metavar="FILE:NUMBER")
    given = parser.parse_args()
    places = []
    for file in sorted(given.package.rglob("*.py")) or [given.package]:
        counter = _Mutation()
        counter.visit(ast.parse(file.read_text(encoding="utf-8")))
        places += [(file, number) for number in range(counter.count)]
    drawn = sorted(random.Random(given.seed).sample(places, min(given.count, len(places))))
    if given.only:
        chosen = {(name, int(number)) for name, _, number in (one.partition(":") for one in given.only)}
        drawn = [(file, number) for file, number in places if (file.name, number) in chosen]
    modules = {file: import_module(".".join(file.with_suffix("").parts).removesuffix(".__init__")) for file, _ in drawn}
    _, status = os.waitpid(_begin(*next(iter(modules.items())), -1, given.tests), 0)
    if status:
        sys.exit("the tests fail without a change")
    begun, killed = time.monotonic(), 0
    for done, (file, number, survived) in enumerate(_tried(drawn, modules, given.tests, given.jobs), 1):
        killed += not survived
        if survived:
            mutation = _Mutation(number)
            mutation.visit(ast.parse(file.read_text(encoding="utf-8")))
            before = file.read_text(encoding="utf-8").splitlines()[mutation.line - 1].strip()
            print(f"{file.name}:{number} line {mutation.line}: {before}\n    -> {mutation.after}", flush=True)
        if done % 20 == 0:
            print(f"{done} of {len(drawn)}, {killed} noticed, {time.monotonic() - begun:.0f} s", flush=True)
    print(f"{killed} of {len(drawn)} mutants were noticed ({len(places)} places)")
    return int(killed * 100 < given.least * len(drawn))


if __name__ == "__main__":
    sys.exit(main())
