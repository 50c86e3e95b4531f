"""HTTP models against a local server that is good, slow, broken or hostile."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from oodometer.core.errors import InputError
from oodometer.models import HttpModel, as_model, http_endpoint
from oodometer.testing import check_model, toy_inputs

Reply = tuple[int, bytes, dict[str, str]]


class Server:
    """Local server: replies with `respond(request number, body)` and records the requests."""

    def __init__(self) -> None:
        self.respond: Callable[[int, Any], Reply] = lambda number, sent: good(sent)
        self.got: list[Any] = []
        self.headers: list[Any] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.got.append(sent)
                outer.headers.append(dict(self.headers))
                self.reply(*outer.respond(len(outer.got), sent))

            def do_GET(self) -> None:
                outer.got.append("GET")
                self.reply(*good({"inputs": [0]}))

            def reply(self, status: int, body: bytes, headers: dict[str, str]) -> None:
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/score"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def reply(body: Any, status: int = 200, **headers: str) -> Reply:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return status, text, {name.replace("_", "-"): value for name, value in headers.items()}


def good(sent: Any) -> Reply:
    share = [len(json.dumps(row)) % 10 / 10 for row in sent["inputs"]]
    return reply({"probs": [[1 - p, p] for p in share]})


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.close()


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Record the pauses between attempts instead of sleeping."""
    noted: list[float] = []
    monkeypatch.setattr(time, "sleep", noted.append)
    return noted


@pytest.mark.parametrize("kind", ["images", "text", "pairs", "vectors", "table"])
def test_every_kind_of_input_is_sent_as_documented(server: Server, kind: Any) -> None:
    inputs = toy_inputs(kind, n=3)
    check_model(HttpModel(server.url), inputs)
    rows = server.got[0]["inputs"]
    if kind == "table":
        assert rows == inputs.to_pylist()
    else:
        assert rows == np.asarray(inputs).tolist()


def test_one_request_per_batch(server: Server) -> None:
    texts = [f"text {'x' * j}" for j in range(7)]
    model = as_model(server.url, batch_size=3)
    assert model.name == f"127.0.0.1:{server.server.server_port}/score"
    predictions = model.classify(texts)
    assert [len(sent["inputs"]) for sent in server.got] == [3, 3, 1]
    assert np.array_equal(predictions.probs, as_model(server.url).classify(texts).probs)
    assert len(server.got[-1]["inputs"]) == 7


def test_key_of_the_response_is_the_output_type(server: Server) -> None:
    server.respond = lambda number, sent: reply({"logits": [[3.0, -1.0]]})
    assert as_model(server.url).classify(["a"]).score_type == "logits"
    server.respond = lambda number, sent: reply({"classes": ["dog"]})
    predictions = as_model(server.url, class_names=["cat", "dog"]).classify(["a"])
    assert (predictions.score_type, predictions.classes.tolist()) == ("classes", [1])
    both = {"probs": [[0.5, 0.5]], "classes": [1], "version": 3}
    server.respond = lambda number, sent: reply(both)
    assert as_model(server.url, outputs="classes").classify(["a"]).score_type == "classes"
    with pytest.raises(InputError, match=r"has the keys .*one of the keys probs, logits"):
        as_model(server.url).classify(["a"])


def test_prepare_and_headers_are_sent(server: Server) -> None:
    model = HttpModel(server.url, prepare=lambda t: [{"text": row} for row in t], headers={"X-Key": "k"})  # fmt: skip
    model.classify(["a"])
    assert server.got == [{"inputs": [{"text": "a"}]}]
    assert server.headers[0]["X-Key"] == "k"
    assert server.headers[0]["Content-Type"] == "application/json"


@pytest.mark.parametrize("status", [429, 500, 503])
def test_busy_server_is_retried(server: Server, waits: list[float], status: int) -> None:
    def busy_twice(number: int, sent: Any) -> Reply:
        return reply({}, status) if number <= 2 else good(sent)

    server.respond = busy_twice
    assert HttpModel(server.url, pause=0.25).classify(["a"]).n == 1
    assert waits == [0.25, 0.5]


def test_retry_after_is_respected_up_to_a_minute(server: Server, waits: list[float]) -> None:
    after = {1: "7", 2: "86400", 3: "tomorrow"}
    server.respond = lambda number, sent: (
        reply({}, 503, Retry_After=after[number]) if number in after else good(sent)
    )
    HttpModel(server.url, pause=0.25).classify(["a"])
    assert waits == [7.0, 60.0, 1.0]


def test_persistent_errors_raise_after_all_attempts(server: Server, waits: list[float]) -> None:
    server.respond = lambda number, sent: reply(b"out of\nmemory " + b"x" * 5000, 500)
    with pytest.raises(InputError) as refusal:
        HttpModel(server.url, retries=2).classify(["a"])
    words = str(refusal.value)
    assert f"The request to the model at {server.url} failed after 3 attempts: 500" in words
    assert "out of memory xxx" in words
    assert "\n" not in words
    assert len(words) < 500
    assert len(server.got) == 3


@pytest.mark.parametrize("status", [400, 401, 404, 422])
def test_client_errors_are_not_retried(server: Server, waits: list[float], status: int) -> None:
    server.respond = lambda number, sent: reply(b"not so", status)
    with pytest.raises(InputError, match=f"failed: {status} .*: not so"):
        HttpModel(server.url).classify(["a"])
    assert len(server.got) == 1
    assert waits == []


def test_timeouts_raise_after_all_attempts(server: Server) -> None:
    done = threading.Event()

    def hang(number: int, sent: Any) -> Reply:
        done.wait(5)
        return good(sent)

    server.respond = hang
    with pytest.raises(InputError, match=r"after 2 attempts: no response within 0\.1 seconds"):
        HttpModel(server.url, timeout=0.1, retries=1, pause=0.01).classify(["a"])
    done.set()


def test_slow_responses_time_out(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 10_000, 20))
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    with pytest.raises(InputError, match="no response within 15 seconds"):
        HttpModel(server.url, timeout=15, retries=0).classify(["a"])


def test_refused_connections_raise() -> None:
    gone = Server()
    gone.close()
    with pytest.raises(InputError, match="after 2 attempts: ConnectionRefusedError: "):
        HttpModel(gone.url, retries=1, pause=0.01).classify(["a"])


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"<html>\nHello", "is not JSON: '<html> Hello'"),
        (b"", "is not JSON: ''"),
        (b"[" * 100_000, "is not JSON"),
        ([0.5, 0.5], "has no JSON object"),
        ({"scores": [[0.5, 0.5]]}, r"has the keys \['scores'\]"),
        ({"probs": [[0.5, 0.5]]}, "returned 1 rows for 2 inputs"),
        ({"probs": [[0.5, 0.5], [0.5]]}, "returned rows of different lengths"),
        ({"probs": [[0.5, 0.5], [float("nan"), 0.5]]}, "row 1, class 0 is nan"),
        ({"probs": [[0.5, 0.5], [None, 0.5]]}, "returned invalid outputs: probs must be numbers"),
        ({"probs": [[0.5, 0.5], [0.9, 0.5]]}, r"row 1 sums to 1\.4"),
        ({"probs": {"a": 1}}, "returned a single value"),
        ({"classes": ["cat", "dog"]}, r"Pass the names of the classes, as class_names=\[…\]"),
        ({"classes": [1, None]}, "returned invalid outputs"),
    ],
)
def test_invalid_responses_raise_one_line(server: Server, body: Any, words: str) -> None:
    server.respond = lambda number, sent: reply(body)
    model = as_model(server.url)
    with pytest.raises(InputError, match=f"he model '{model.name}' .*{words}") as refusal:
        model.classify(["a", "b"])
    assert "\n" not in str(refusal.value)
    assert len(server.got) == 1


def test_oversized_responses_raise(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_endpoint, "MAX_RESPONSE_BYTES", 3 << 20)
    server.respond = lambda number, sent: reply(b" " * (4 << 20))
    with pytest.raises(InputError, match="the response is larger than 3 MB"):
        as_model(server.url).classify(["a"])


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(server: Server, status: int) -> None:
    other = Server()
    for path in (other.url, f"{server.url}/elsewhere"):
        server.respond = lambda number, sent, to=path: reply(b"", status, Location=to)  # type: ignore[misc]
        with pytest.raises(InputError, match=f"failed: it redirects to {path}"):
            as_model(server.url).classify(["a"])
    assert other.got == []
    assert len(server.got) == 2
    other.close()


def test_proxies_of_the_environment_are_not_used(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Server()
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, other.url)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert as_model(server.url).classify(["a"]).n == 1
    assert other.got == []
    other.close()


def test_invalid_settings_raise() -> None:
    for url in ("ftp://host/model", "http://", "host/model", "file:///etc/hosts"):
        with pytest.raises(InputError, match="is not the URL of a model"):
            HttpModel(url)
    limits = {"timeout": "above 0", "retries": "at least 0", "pause": "at least 0"}
    for setting, limit in limits.items():
        bad: dict[str, Any] = {setting: 0 if setting == "timeout" else -1}
        with pytest.raises(InputError, match=f"{setting} must be {limit}"):
            HttpModel("http://localhost", **bad)


def test_values_without_json_counterpart_raise(server: Server) -> None:
    table = pa.table({"when": pa.array([time.time_ns()], pa.timestamp("ns"))})
    with pytest.raises(InputError, match="failed on 1 rows of a table: TypeError"):
        as_model(server.url).classify(table)
