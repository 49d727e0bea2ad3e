"""Starts serve.py on a free port, and sends it 1, 4 and 400 random images."""

import subprocess
import sys
from urllib.error import HTTPError
from urllib.request import urlopen

import numpy as np

command = [sys.executable, "serve.py", "served.onnx", "0"]
with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
    assert server.stdout is not None
    address = server.stdout.readline().strip()
    try:
        for count in (1, 4, 400):
            images = np.random.default_rng(count).standard_normal((count, 3, 96, 96), np.float32)
            try:
                with urlopen(address, images.tobytes()) as reply:
                    print(count, "images:", len(reply.read().split()), "classes")
            except HTTPError as error:
                print(count, "images:", error.code, error.read().decode().strip())
        with urlopen(address) as reply:
            print(reply.read().decode().strip())
    finally:
        server.terminate()
