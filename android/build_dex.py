"""The dex files of the app for Android and of ONNX Runtime: classes.dex, classes2.dex ... in a folder.

    python android/build_dex.py -o DIR [--aar onnxruntime.aar]

Needs a JDK 17 or later, and D8 of the Android SDK in ANDROID_HOME; without the SDK, a pinned one is downloaded once.
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
    """The command line: 0 if the files are written, 1 if they cannot be made."""
    parser = argparse.ArgumentParser(prog="build_dex.py", description="Builds the dex files of the app for Android.")
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", required=True, help="the folder of the dex files")
    parser.add_argument("--aar", type=Path, metavar="FILE", help="ONNX Runtime for Android, instead of the pinned one")
    args = parser.parse_args()
    output: Path = args.output
    try:
        for number, content in enumerate(toolchain.dex(toolchain.runtime(args.aar)), start=1):
            path = output / f"classes{'' if number == 1 else number}.dex"
            write_entry(path, content)
            print(f"{path}: {len(content):,} bytes")
    except (toolchain.ToolError, OSError) as error:
        print(f"build_dex.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
