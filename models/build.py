"""Builds a reference network with random weights as an ONNX or .tflite file, or its usage records as CSV.

    python models/build.py mobilenet_v2 -o mobilenet_v2.onnx
    python models/build.py mobilenet_v2 -o mobilenet_v2.csv --records
    python models/build.py all -o DIR --size small
    python models/build.py mobilenet_v2_tflite --alpha 0.3 --size 80 --classes 2 --int8 -o mobilenet_v2.tflite

The same arguments make the same bytes. Needs numpy and onnx only, and ai-edge-litert for .tflite files.
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from models import classification, graphs, sequence
from models import dense_prediction as dense
from models.atomic_files import write_atomically
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


# Networks as .tflite files, which have options of their own.
TFLITE = {
    "mobilenet_v1_tflite": "MobileNet v1 of any width and input size, float32 or int8 (.tflite)",
    "mobilenet_v2_tflite": "MobileNet v2 of any width and input size, float32 or int8 (.tflite)",
    "deeplab_v3_tflite": "DeepLab v3 on MobileNet v2 of any width and input size, float32 (.tflite)",
    "posenet_tflite": "PoseNet's maps on MobileNet v1 of any width and input size, float32 (.tflite)",
}
# Width and pixels; `small`, and `full` as published.
TFLITE_SIZES = {
    "mobilenet_v1_tflite": {"small": (0.25, 96), "full": (1.0, 224)},
    "mobilenet_v2_tflite": {"small": (0.25, 96), "full": (1.0, 224)},
    "deeplab_v3_tflite": {"small": (0.25, 65), "full": (0.5, 257)},
    "posenet_tflite": {"small": (0.25, 97), "full": (1.0, 257)},
}


def names() -> tuple[str, ...]:
    """The networks that are made as ONNX files."""
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


def build_tflite(
    name: str,
    *,
    size: Size | int = "full",
    alpha: float | None = None,
    int8: bool = False,
    classes: int | None = None,
    seed: int = 0,
) -> bytes:
    """The .tflite file of a network: batch 1, NHWC, weights drawn from `seed`.

    Args:
        name: of the network.
        size: height and width in pixels; `small` and `full` also choose the width of the network.
        alpha: that width: a multiplier of channel counts.
        int8: int8 instead of float32.
        classes: how many it tells apart; None: 1000, or the 21 of DeepLab's data. PoseNet has none.
        seed: draws the weights.

    Raises ValueError for an unknown name, and sizes that make no network. Needs ai-edge-litert.
    """
    if name not in TFLITE:
        raise ValueError(f"no .tflite network {name!r}; there are: {', '.join(TFLITE)}")
    from models import tflite_networks  # needs ai-edge-litert

    width, pixels = TFLITE_SIZES[name][size if isinstance(size, str) else "full"]
    pixels = pixels if isinstance(size, str) else size
    options: dict[str, Any] = {"alpha": width if alpha is None else alpha, "size": pixels, "int8": int8, "seed": seed}
    if classes is not None:
        if name == "posenet_tflite":
            raise ValueError("PoseNet has no classes")
        options["classes"] = classes
    return bytes(getattr(tflite_networks, name.removesuffix("_tflite"))(**options))


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns its exit status."""
    args = _parser().parse_args(arguments)
    if args.list:
        for name, network in NETWORKS.items():
            print(f"{name:20} {(network.build.__doc__ or '').splitlines()[0]}")
        for name, about in TFLITE.items():
            print(f"{name:20} {about}")
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
        _check_options(args)
        for name, path in wanted.items():
            if name in TFLITE:
                data = build_tflite(
                    name, size=args.size, alpha=args.alpha, int8=args.int8, classes=args.classes, seed=args.seed
                )
            elif args.records:
                rows = records(name, size=args.size, batch=batch, seed=args.seed)
                data = records_csv(rows).encode()
            else:
                model = build(name, size=args.size, batch=batch, seed=args.seed)
                data = model.SerializeToString(deterministic=True)
            write_atomically(path, data)
            print(f"{path}: {len(data):,} bytes")
    except (ValueError, OSError, ImportError) as error:
        print(f"build.py: {error}", file=sys.stderr)
        return 2
    return 0


def _check_options(args: argparse.Namespace) -> None:
    """Raise ValueError for an option that the network does not have."""
    if args.name in TFLITE:
        given = ["--records"] * args.records + ["--batch"] * (args.batch != "1")
        kind = "ONNX"
    else:
        given = ["--alpha"] * (args.alpha is not None) + ["--int8"] * args.int8
        given += ["--classes"] * (args.classes is not None) + ["--size PIXELS"] * isinstance(args.size, int)
        kind = ".tflite"
    if given:
        raise ValueError(f"{given[0]} is an option of {kind} networks; leave it out")


def _size(text: str) -> Size | int:
    """`small`, `full`, or a number of pixels. Raises argparse.ArgumentTypeError for anything else."""
    match text:
        case "small" | "full":
            return text
        case _ if text.isdecimal():
            return int(text)
    raise argparse.ArgumentTypeError(f"it is small, full or a number of pixels, not {text!r}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="build.py", description="Builds a reference network with random weights.")
    parser.add_argument("name", nargs="?", help="a network, or `all`")
    parser.add_argument("-o", "--output", type=Path, help="the file; with `all`, the folder")
    parser.add_argument("--records", action="store_true", help="write usage records as CSV instead of the ONNX file")
    parser.add_argument(
        "--size", type=_size, default="full", help="small: below 2 MB, for tests; .tflite: also a number of pixels"
    )
    parser.add_argument("--alpha", type=float, help=".tflite: multiplier of channel counts (default 1, DeepLab 0.5)")
    parser.add_argument("--int8", action="store_true", help=".tflite: int8 instead of float32")
    parser.add_argument("--classes", type=int, help=".tflite: how many classes (default 1000, DeepLab 21)")
    parser.add_argument("--batch", default="1", help="a number, or a symbol such as N that stays open (default 1)")
    parser.add_argument("--seed", type=int, default=0, help="draws the weights, and randwire's wiring (default 0)")
    parser.add_argument("--list", action="store_true", help="list the networks")
    return parser


if __name__ == "__main__":
    sys.exit(main())
