"""Serves a planned model over HTTP: python serve.py MODEL PORT."""

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

import edgemem
from edgemem.errors import BudgetExceededError

SHAPE = (-1, 3, 96, 96)
session = edgemem.InferenceSession(sys.argv[1], max_bytes=8 << 20, idle_seconds=30)


class Handler(BaseHTTPRequestHandler):
    """POST: images as float32, one behind another; the answer is a class an image. GET: the memory of the session."""

    def do_GET(self) -> None:
        """Say what the last run took."""
        self.answer(200, str(session.memory_report))

    def do_POST(self) -> None:
        """Run the model; 413 for more images than the budget has room for."""
        images = np.frombuffer(self.rfile.read(int(self.headers["Content-Length"])), np.float32).reshape(SHAPE)
        try:
            (scores,) = session.run(None, {"image": images})
        except BudgetExceededError as error:
            self.answer(413, str(error))
        else:
            self.answer(200, " ".join(map(str, scores.argmax(1))))

    def answer(self, status: int, text: str) -> None:
        """Send one line of text."""
        self.send_response(status)
        self.end_headers()
        self.wfile.write(f"{text}\n".encode())


server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Handler)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
