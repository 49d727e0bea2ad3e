"""The sample app's view of an exported page: what it answers to a browser, on this machine's JVM with stand-ins."""

from __future__ import annotations

import hashlib
import os
import subprocess
import zipfile
from typing import TYPE_CHECKING, Final

from edgemem.android.sdk import run_tool
from edgemem.android.sources import find_sources
from edgemem.runtime.webgpu.web_bundle import write_bundle
from tests.android.sdk import STUBS
from tests.android.tools import need
from tests.webgpu_programs import pyramid

if TYPE_CHECKING:
    from pathlib import Path

_JAVA: Final = find_sources() / "android/template/onnxruntime/app/src/main/java/ai/edgemem/demo"
_TYPES: Final = {".html": "text/html", ".js": "text/javascript"}
_ASK: Final = """package ai.edgemem.demo;

final class Ask {
  public static void main(String[] addresses) throws Exception {
    android.app.Activity activity = new android.app.Activity();
    System.out.println(BundlePage.isThere(activity.getAssets()));
    System.out.print(((android.webkit.WebView) BundlePage.open(activity)).answers(addresses));
  }
}
"""


def test_the_app_gives_its_page_the_bundle_and_nothing_else(tmp_path: Path) -> None:
    need(["java", "javac"])
    files = write_bundle(pyramid(), tmp_path / "web")
    with zipfile.ZipFile(tmp_path / "app.apk", "w") as app:
        app.writestr("assets/model.onnx", b"not the page's")
        for file in files:
            app.write(file, f"assets/web/{file.name}")
    (tmp_path / "empty.apk").write_bytes(b"PK\x05\x06" + bytes(18))
    (tmp_path / "Ask.java").write_text(_ASK)
    sources = [tmp_path / "Ask.java", _JAVA / "BundlePage.java", *STUBS.rglob("*.java")]
    run_tool(["javac", "-Xlint:all", "-Werror", "-d", tmp_path / "classes", *sources], cwd=tmp_path)

    def ask(app: str, *addresses: str) -> list[str]:
        command = ["java", f"-Dapk={tmp_path / app}", "-cp", str(tmp_path / "classes"), "ai.edgemem.demo.Ask"]
        return subprocess.run(
            [*command, *addresses], env=os.environ, capture_output=True, text=True, check=True, timeout=60
        ).stdout.splitlines()

    missing = f"404 text/plain {hashlib.sha256(b'').hexdigest()}"
    elsewhere = ("https://example.org/index.html", "nothing.js", "../model.onnx", "/model.onnx")
    assert ask("app.apk", *(file.name for file in files), *elsewhere) == [
        "true",
        *(
            f"200 {_TYPES.get(file.suffix, 'application/octet-stream')} {hashlib.sha256(file.read_bytes()).hexdigest()}"
            for file in files
        ),
        *[missing] * len(elsewhere),
    ]
    assert ask("empty.apk") == ["false"]
