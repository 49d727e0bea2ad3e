"""Runs bundles of `edgemem export -f web` in Chromium, whose WebGPU is SwiftShader's, served from this process."""

from __future__ import annotations

import base64
import json
import shutil
import threading
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

from edgemem.runtime.webgpu import web_bundle
from tests.chromium import Browser, need_chromium

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = ["STATIC", "Page", "page", "served"]

STATIC: Final = Path(web_bundle.__file__).parent / "web"

# Numbers pass as base64 of their bytes.
_SCRIPT: Final = """
import * as edgemem from "/player.js";
const arrays = { float32: Float32Array, int32: Int32Array, int64: BigInt64Array, bool: Uint8Array, uint8: Uint8Array };
window.loadBundle = async (folder, options) => {
  try {
    window.model?.close();
    window.devices = 0;
    window.model = await edgemem.load(folder, options);
    const { bytes, weightBytes, kernels, plan } = window.model;
    return { bytes, weightBytes, kernels, plan, devices };
  } catch (error) {
    return { error: error.message, kind: error.name, devices };
  }
};
window.runBundle = async (feeds) => {
  const given = {};
  for (const [name, [dtype, data]] of Object.entries(feeds)) {
    given[name] = new arrays[dtype](Uint8Array.from(atob(data), (c) => c.charCodeAt(0)).buffer);
  }
  try {
    const results = await window.model.run(given);
    return Object.fromEntries(Object.entries(results).map(([name, { data, shape }]) => {
      let text = "";
      const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
      for (const byte of bytes) text += String.fromCharCode(byte);
      return [name, { kind: data.constructor.name, shape, data: btoa(text) }];
    }));
  } catch (error) {
    return { error: error.message, kind: error.name };
  }
};
const request = GPUAdapter.prototype.requestDevice;
GPUAdapter.prototype.requestDevice = async function (...given) {
  window.devices++;
  return (window.device = await request.apply(this, given));
};
// Memory is full of what is no number before it is written.
const { createBuffer, createTexture } = GPUDevice.prototype;
GPUDevice.prototype.createBuffer = function (given) {
  const made = createBuffer.call(this, given);
  if (given.usage & GPUBufferUsage.COPY_SRC) this.queue.writeBuffer(made, 0, new Uint8Array(given.size).fill(255));
  return made;
};
GPUDevice.prototype.createTexture = function (given) {
  const made = createTexture.call(this, given);
  const row = made.width * (given.format === "rgba32float" ? 16 : 8);
  const data = new Uint8Array(row * made.height * made.depthOrArrayLayers).fill(255);
  const size = [made.width, made.height, made.depthOrArrayLayers];
  this.queue.writeTexture({ texture: made }, data, { bytesPerRow: row, rowsPerImage: made.height }, size);
  return made;
};
document.documentElement.dataset.ready = "true";
"""
_KINDS: Final = {"Float32Array": np.float32, "Int32Array": np.int32, "BigInt64Array": np.int64, "Uint8Array": np.uint8}


class _Quiet(SimpleHTTPRequestHandler):
    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a folder, with a page for tests beside a player that lies in it."""
    (folder / "test.js").write_text(_SCRIPT)
    (folder / "test.html").write_text(
        '<!doctype html><link rel="icon" href="data:,"><script type="module" src="test.js"></script>'
    )
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


class Page:
    """A page in Chromium, and the folder that it is served from."""

    def __init__(self, browser: Browser, folder: Path, home: str) -> None:
        self.browser, self.folder, self.home = browser, folder, home
        browser.open(f"{home}test.html")

    def load(self, folder: str, **options: Any) -> dict[str, Any]:
        """What the page says of a bundle that it loads: the model's memory, or the error."""
        return dict(self.browser.run(f"loadBundle({json.dumps(folder)}, {json.dumps(options)})"))

    def run(self, feeds: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """The outputs of the bundle that was loaded. Raises RuntimeError with what the page says instead."""
        given = {
            name: [v.dtype.name, base64.b64encode(np.ascontiguousarray(v).tobytes()).decode()]
            for name, v in feeds.items()
        }
        found = self.browser.run(f"runBundle({json.dumps(given)})")
        if "error" in found:
            raise RuntimeError(f"{found['kind']}: {found['error']}")
        return {
            name: np.frombuffer(base64.b64decode(o["data"]), _KINDS[o["kind"]]).reshape(o["shape"])
            for name, o in found.items()
        }


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    folder = tmp_path_factory.mktemp("bundles")
    shutil.copy(STATIC / "player.js", folder)
    profile = tmp_path_factory.mktemp("profile")
    with served(folder) as home, Browser(need_chromium(), profile, webgpu=True) as browser:
        yield Page(browser, folder, home)
