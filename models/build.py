"""Builds a reference network as an ONNX file with random weights, or its usage records as CSV.

    python models/build.py mobilenet_v2 -o mobilenet_v2.onnx
    python models/build.py mobilenet_v2 -o mobilenet_v2.csv --records
    python models/build.py all -o DIR --size small

The same arguments make the same bytes. Needs numpy and onnx only.
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from models import classification, dense, graphs, sequence
from models.atomic import write_atomically
from models.net import Dim, Net, Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onnx import ModelProto

Size: TypeAlias = Literal["small", "full"]


class Builder(Protocol):
    """Adds a network's layers to an empty Net; its docstring's first line describes it."""

    __doc__: str | None

    def __call__(self, net: Net, *, small: bool) -> None: ...


@dataclass(frozen=True, slots=True)
class Network:
    """A builder, and the multiple that its records' channels are padded to (4 on the paper's GPU)."""

    build: Builder
    channel_multiple: int = 1


NETWORKS = {
    "mobilenet_v1": Network(classification.mobilenet_v1, 4),
    "mobilenet_v2": Network(classification.mobilenet_v2, 4),
    "inception_v3": Network(classification.inception_v3, 4),
    "deeplab_v3": Network(dense.deeplab_v3, 4),
    "posenet": Network(dense.posenet, 4),
    "blazeface": Network(dense.blazeface),
    "unet": Network(dense.unet),
    "resnet18": Network(classification.resnet18),
    "resnet50": Network(classification.resnet50),
    "transformer": Network(sequence.transformer),
    "nas_cell": Network(graphs.nas_cell),
    "randwire": Network(graphs.randwire),
    "branches": Network(sequence.branches),
    "dynamic": Network(sequence.dynamic),
}


def names() -> tuple[str, ...]:
    """The networks."""
    return tuple(NETWORKS)


def describe(name: str, *, size: Size = "full", batch: Dim = 1, seed: int = 0) -> Net:
    """The description of a network. Raises ValueError for an unknown name or size and a bad batch."""
    if name not in NETWORKS:
        raise ValueError(f"no network {name!r}; there are: {', '.join(NETWORKS)}")
    if size not in ("small", "full"):
        raise ValueError(f"size is small or full, not {size!r}")
    if isinstance(batch, int) and batch < 1:
        raise ValueError(f"batch {batch} is below 1")
    if isinstance(batch, str) and not batch.isidentifier():
        raise ValueError(f"batch {batch!r} is neither a number nor a symbol's name")
    net = Net(name, batch=batch, seed=seed)
    NETWORKS[name].build(net, small=size == "small")
    return net


def build(name: str, *, size: Size = "full", batch: Dim = 1, seed: int = 0) -> ModelProto:
    """The ONNX model: opset 17, float32, NCHW, weights drawn from `seed`.

    `batch` is a number or a symbol's name. Raises ValueError as `describe` does.
    """
    return describe(name, size=size, batch=batch, seed=seed).model()


def records(name: str, *, size: Size = "full", batch: Dim = 1, seed: int = 0) -> list[Record]:
    """Usage records at the paper's granularity: (tensor, first_op, last_op, size), inclusive, float32 bytes.

    `seed` matters where the topology is random. Raises ValueError as `describe` does, and where a dimension is a
    symbol.
    """
    net = describe(name, size=size, batch=batch, seed=seed)
    return net.records(channel_multiple=NETWORKS[name].channel_multiple)


def records_csv(rows: Sequence[Record]) -> str:
    """Records as CSV with a header."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("tensor", "first_op", "last_op", "size"))
    writer.writerows(rows)
    return text.getvalue()


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns its exit status."""
    args = _parser().parse_args(arguments)
    if args.list:
        for name, network in NETWORKS.items():
            print(f"{name:14} {(network.build.__doc__ or '').splitlines()[0]}")
        return 0
    if args.name is None or args.output is None:
        print("build.py: a NAME and -o are needed; --list shows the names", file=sys.stderr)
        return 2
    batch: Dim = int(args.batch) if args.batch.lstrip("-").isdigit() else args.batch
    suffix = ".csv" if args.records else ".onnx"
    wanted = {args.name: args.output}
    if args.name == "all":
        # Records need sizes, and `dynamic` never has them.
        chosen = [n for n in NETWORKS if not (args.records and n == "dynamic")]
        wanted = {name: args.output / f"{name}{suffix}" for name in chosen}
    try:
        for name, path in wanted.items():
            if args.records:
                rows = records(name, size=args.size, batch=batch, seed=args.seed)
                data = records_csv(rows).encode()
            else:
                model = build(name, size=args.size, batch=batch, seed=args.seed)
                data = model.SerializeToString(deterministic=True)
            write_atomically(path, data)
            print(f"{path}: {len(data):,} bytes")
    except (ValueError, OSError) as error:
        print(f"build.py: {error}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="build.py", description="Builds a reference network with random weights.")
    parser.add_argument("name", nargs="?", help="a network, or `all`")
    parser.add_argument("-o", "--output", type=Path, help="the file; with `all`, the folder")
    parser.add_argument("--records", action="store_true", help="write usage records as CSV instead of the ONNX file")
    parser.add_argument("--size", choices=("small", "full"), default="full", help="small: below 2 MB, for tests")
    parser.add_argument("--batch", default="1", help="a number, or a symbol such as N that stays open (default 1)")
    parser.add_argument("--seed", type=int, default=0, help="draws the weights, and randwire's wiring (default 0)")
    parser.add_argument("--list", action="store_true", help="list the networks")
    return parser


if __name__ == "__main__":
    sys.exit(main())
