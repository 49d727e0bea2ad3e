"""Takes docs/web.png and docs/web-phone.png: the page of a bundle, wide and on a phone.

    python docs/web_pictures.py

Needs Chromium (apt-get install chromium), whose WebGPU in software runs the model.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import edgemem
from edgemem.runtime.webgpu.web_bundle import write_bundle
from models.build import build_tflite
from tests.chromium import Browser, need_chromium
from tests.web_bundles import served


def main() -> None:
    """Write both pictures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = folder / "mobilenet_v2.tflite"
        model.write_bytes(build_tflite("mobilenet_v2_tflite", alpha=0.35, size=96))
        edgemem.save(model, edgemem.plan(model, target="gpu-buffer"), model)
        write_bundle(model, folder)
        with served(folder) as home, Browser(need_chromium(), folder / "profile", webgpu=True) as browser:
            for picture, width, height in (("web.png", 1280, 640), ("web-phone.png", 390, 844)):
                browser.size(width, height)
                browser.open(f"{home}index.html")
                browser.run("document.getElementById('random').click()")
                browser.run("new Promise((done) => setTimeout(done, 3000))")
                browser.frame()
                browser.screenshot(ROOT / "docs" / picture)


if __name__ == "__main__":
    main()
