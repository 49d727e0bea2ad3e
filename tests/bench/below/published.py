"""What others published for the same networks and methods, beside what edgemem's files take here.

    python tests/bench/below/published.py [--page docs/below-the-bound.md]

Figures of others are quoted from the papers and pages named in the table; they are of other machines and kernels, and
were not measured again. Those of edgemem are measured in TensorFlow Lite Micro as it comes.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[3]))

from tests.bench.below import micro
from tests.bench.below.page import measured_with, put, table
from tests.bench.below.shrunk import folded, shrink
from tests.bench.below.subjects import arguments, each_in_a_folder, source

PROFILE = "tflm-reference"
# Network, what its memory is of, and rows of who, figure, and what to know. edgemem's own rows are measured.
NETWORKS = {
    "mobilenet_v2_1.00_224_int8": (
        "MobileNet v2 1.0, 224x224, int8: activations",
        [
            ("layer by layer (MCUNetV2, Lin et al. 2021)", "1,372 kB", "their figure before patches"),
            ("MCUNetV2 (Lin et al. 2021)", "172 kB", "patches, whose edges are computed again"),
        ],
    ),
    "mobilenet_v2_0.30_80_int8": (
        "MobileNet v2 0.30, 80x80, int8: all RAM",
        [
            ("TensorFlow Lite Micro (Plumerai's comparison, 2021)", "155 KiB", "on a microcontroller"),
            ("Edge Impulse EON (same)", "153 KiB", "generated code"),
            ("X-CUBE-AI (same)", "109 KiB", ""),
            ("TinyEngine (same)", "98 KiB", "generated code"),
            ("Plumerai (same)", "80 KiB", ""),
        ],
    ),
}
METHODS = [
    ("Diagonal memory optimisation (Blacker et al. 2020)", "overlap", "-34.5 % on average of 11 networks"),
    ("vMCU (Zheng et al. 2024)", "overlap, kernels of its own", "-12.0 to -49.5 % a layer, -61.5 % of a bottleneck"),
    ("MCUNetV2 (Lin et al. 2021)", "patches, edges computed again", "4 to 8 times less"),
    ("msf-CNN (Huang and Baccelli 2025)", "patches in several stages", "half of MCUNetV2"),
    ("Pex (Liberis and Lane 2022)", "channels in parts", "up to 4 times less"),
    ("FDT (Stahl et al. 2023)", "channels in parts", "up to -76 %"),
]


def rows(name: str, folder: Path) -> list[list[str]]:
    """The rows of a network: others', then stock, overlap alone, and streamed."""
    title, others = NETWORKS[name]
    made = [[f"**{title}**", "", ""], *(list(row) for row in others)]
    path = folded(source(name, folder), folder)
    is_sum = "all RAM" in title
    for stages, about in ((None, "overlap"), ("auto" if is_sum else "head", "streamed, overlap, slots; MACs x1.0")):
        ran = micro.run(shrink(path, folder, target="tflm", kernels=PROFILE, stages=stages).path)
        size = ran.head + ran.tail if is_sum else ran.head
        made.append(["edgemem, TensorFlow Lite Micro as it comes", f"{size / 1024:,.1f} KiB", about])
    if is_sum:
        made[-1][2] += "; 64-bit pointers"
    return made


def main() -> None:
    """Print the tables."""
    args = arguments(__doc__, tuple(NETWORKS)).parse_args()
    found = [row for made in each_in_a_folder(args.names, rows) for row in made]
    text = f"{measured_with('tflite-micro')}\n\n{table(('who', 'memory', 'what to know'), found)}"
    put(args.page, "published", text)
    put(args.page, "methods", table(("method", "kind", "published reduction"), [list(row) for row in METHODS]))


if __name__ == "__main__":
    main()
