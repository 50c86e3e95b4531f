"""Rank two models behind http addresses on unlabelled images, by their predicted classes.

The server here is Python's own, on this machine. Yours receives {"inputs": […]} by POST and returns
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


def train_models(images, labels):
    """Return a model trained on the labels, and one for which half of the labels were shuffled."""
    rows = images.reshape(len(images), -1)
    shuffled = labels.copy()
    shuffled[::2] = np.random.default_rng(0).permutation(shuffled[::2])
    return {
        name: LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1).fit(rows, targets)
        for name, targets in {"good": labels, "poor": shuffled}.items()
    }


@contextmanager
def serve(models):
    """Serve the models at http://…/good and http://…/poor until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            rows = np.array(request["inputs"]).reshape(len(request["inputs"]), -1)
            classes = models[self.path.strip("/")].predict(rows)
            response = json.dumps({"classes": classes.tolist()}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(response)))
            self.end_headers()
            self.wfile.write(response)

        def log_message(self, *_):
            """Log nothing."""

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
    models = train_models(images[:900], digits.target[:900])
    with serve(models) as address:
        addresses = {name: f"{address}/{name}" for name in models}
        print(oodometer.rank(addresses, images[900:1200], transform="rotate", draws=5))
    for name, model in models.items():
        correct = model.predict(images[900:1200].reshape(300, -1)) == digits.target[900:1200]
        print(f"{name}: true accuracy {correct.mean():.1%}")


if __name__ == "__main__":
    main()
