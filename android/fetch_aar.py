"""ONNX Runtime for Android out of the pinned npm package, 150 MB once, into edgemem's cache; prints where it is.

    python android/fetch_aar.py [-o DIR]

Version, licence and sha256 are printed too. `-o` copies the archive and its licence there.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from edgemem.android import toolchain
from edgemem.system.files import write_entry


def main() -> int:
    """The command line: 0 if the archive is there, 1 if it cannot be had."""
    parser = argparse.ArgumentParser(prog="fetch_aar.py", description="Fetches ONNX Runtime for Android.")
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="copy the archive and its licence there")
    output: Path | None = parser.parse_args().output
    try:
        runtime = toolchain.runtime()
        if output is not None:
            write_entry(output / "onnxruntime.aar", runtime.archive.read_bytes())
            write_entry(output / "NOTICES.txt", runtime.licence.encode())
    except (toolchain.ToolError, OSError) as error:
        print(f"fetch_aar.py: {error}", file=sys.stderr)
        return 1
    print(f"{runtime.archive}\nONNX Runtime {runtime.version}, {', '.join(runtime.abis)}, MIT, sha256 {runtime.sha256}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
