"""libedgemem.so for Android: DIR/arm64-v8a/libedgemem.so and DIR/x86_64/libedgemem.so.

    python android/build_native.py -o DIR [--abi arm64-v8a]

With the Android NDK where ANDROID_NDK_HOME names it (needs CMake), else with a pinned compiler that is downloaded once
(needs a JDK for jni.h).
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
    """The command line: 0 if the libraries are written, 1 if they cannot be built."""
    parser = argparse.ArgumentParser(prog="build_native.py", description="Builds libedgemem.so for Android.")
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", required=True, help="the folder of the ABIs")
    parser.add_argument("--abi", action="append", metavar="ABI", help="one of them; may be given more than once")
    args = parser.parse_args()
    output: Path = args.output
    try:
        for abi in args.abi or toolchain.ABIS:
            path = output / abi / "libedgemem.so"
            content = toolchain.native_library(abi)
            write_entry(path, content)
            print(f"{path}: {len(content):,} bytes")
    except (toolchain.ToolError, OSError) as error:
        print(f"build_native.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
