"""Two models behind addresses, ranked on images without labels; only their decisions are seen.

The server here is Python's own, on this machine; yours takes {"inputs": […]} by POST and answers
{"classes": […]}, {"probs": [[…], …]} or {"logits": [[…], …]}.
"""

import json
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import numpy as np
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

import oodometer


def models(images, labels):
    """One that learned from right labels, and one that learned from many wrong ones."""
    rows = images.reshape(len(images), -1)
    wrong = labels.copy()
    wrong[::2] = np.random.default_rng(0).permutation(wrong[::2])
    taught = {"good": labels, "poor": wrong}
    return {
        name: LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1).fit(rows, told)
        for name, told in taught.items()
    }


@contextmanager
def served(known):
    """The models at http://…/good and http://…/poor, until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            rows = np.array(asked["inputs"]).reshape(len(asked["inputs"]), -1)
            classes = known[self.path.strip("/")].predict(rows)
            answer = json.dumps({"classes": classes.tolist()}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_):
            """Nothing on the screen."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def main():
    digits = load_digits()
    images = (digits.images * 15).astype(np.uint8)
    known = models(images[:900], digits.target[:900])
    with served(known) as address:
        addresses = {name: f"{address}/{name}" for name in known}
        print(oodometer.rank(addresses, images[900:1200], transform="rotate", draws=5))
    for name, model in known.items():
        right = model.predict(images[900:1200].reshape(300, -1)) == digits.target[900:1200]
        print(f"{name}: in truth {right.mean():.1%}")


if __name__ == "__main__":
    main()
