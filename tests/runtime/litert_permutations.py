"""Runs the check of LiteRT's structures with two fields of one structure exchanged, every pair in a process of its own.

    python -m tests.runtime.litert_permutations

Prints a line of JSON for each pair: the structure, the fields, and what came of it: the verdict of the check, or how
its process ended.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import os
import signal
import sys
from typing import Any

import ai_edge_litert.interpreter  # noqa: F401 -- once, for all processes

from edgemem.runtime.litert import structs

STRUCTURES = ("NativeNode", "NativeTensor", "NativeContext", "NativeDelegate", "Registration")


def exchanged(structure: str, one: int, other: int) -> None:
    """Let `structs` have a structure with two fields exchanged, and let the others refer to it."""
    names: Any = structs
    old = getattr(names, structure)
    fields = list(old._fields_)
    fields[one], fields[other] = fields[other], fields[one]
    made = type(structure, (ctypes.Structure,), {"_fields_": fields})
    setattr(structs, structure, made)
    if structure in ("NativeNode", "NativeTensor"):
        renewed: list[tuple[str, Any]] = []
        for name, kind in names.NativeContext._fields_:
            if name == "tensors":
                renewed.append((name, ctypes.POINTER(structs.NativeTensor)))
            elif name == "get_node_and_registration":
                node = ctypes.POINTER(ctypes.POINTER(structs.NativeNode))
                arguments = (ctypes.c_void_p, ctypes.c_int, node, ctypes.POINTER(ctypes.c_void_p))
                renewed.append((name, ctypes.CFUNCTYPE(ctypes.c_int, *arguments)))
            else:
                renewed.append((name, kind))
        names.NativeContext = type("NativeContext", (ctypes.Structure,), {"_fields_": renewed})


def verdict(structure: str, one: int, other: int) -> str:
    """What the check says in a process of its own: the text, `right` for none, or the signal that ended it."""
    reading, writing = os.pipe()
    process = os.fork()
    if not process:
        os.close(reading)
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        signal.alarm(20)
        if one != other:
            exchanged(structure, one, other)
        from edgemem.runtime.litert.structs_check import difference

        os.write(writing, (difference() or "right").encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    _, status = os.waitpid(process, 0)
    return text or f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) or text else "ended"


def main() -> None:
    for structure in STRUCTURES:
        fields = [entry[0] for entry in getattr(structs, structure)._fields_]
        pairs = [(0, 0), *itertools.combinations(range(len(fields)), 2)]
        for one, other in pairs:
            row = (structure, fields[one], fields[other], verdict(structure, one, other))
            sys.stdout.write(json.dumps(row) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
