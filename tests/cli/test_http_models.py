"""Commands on a model behind an http address: a bad response is a one-line error."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.models.test_http_endpoint import Reply, Server, good, reply
from tests.support.command_line import CommandResult, assert_one_line_error, run, run_json

INVARIANCE = ("digits.npy", "-t", "translate", "-n", "4")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Yield a server; requests to it are retried without a pause."""
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    server = Server()
    # Keep tracebacks of closed connections out of the command's standard error.
    server.server.handle_error = lambda *_: None  # type: ignore[method-assign]
    yield server
    server.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    images = np.random.default_rng(0).integers(0, 256, (30, 8, 8), dtype=np.uint8)
    np.save(tmp_path / "digits.npy", images)
    return tmp_path


def invariance(folder: Path, server: Server, *words: str) -> CommandResult:
    return run(folder, "invariance", server.url, *INVARIANCE, *words)


def hang(number: int, sent: Any) -> Reply:
    threading.Event().wait(0.5)
    return good(sent)


def good_once(bad: Callable[[int, Any], Reply]) -> Callable[[int, Any], Reply]:
    """Return a server function that responds well to the first request only."""
    return lambda number, sent: good(sent) if number == 1 else bad(number, sent)


def rows(extra: int, row: list[float]) -> Callable[[int, Any], Reply]:
    return lambda number, sent: reply({"probs": [row] * (len(sent["inputs"]) + extra)})


BAD_RESPONSES: dict[str, tuple[Callable[[int, Any], Reply], str]] = {
    "500": (lambda number, sent: reply(b"out of paper", 500), "after 5 attempts: 500"),
    "404": (lambda number, sent: reply(b"", 404), "failed: 404"),
    "timeout": (hang, "no response within 0.2 seconds"),
    "not JSON": (lambda number, sent: reply(b"<html>"), "is not JSON: '<html>'"),
    "other keys": (lambda number, sent: reply({"odds": []}), "the keys ['odds']"),
    "not an object": (lambda number, sent: reply([1, 2]), "has no JSON object"),
    "a row too few": (rows(-1, [0.5, 0.5]), "rows for"),
    "a row too many": (rows(1, [0.5, 0.5]), "rows for"),
    "not probabilities": (rows(0, [0.5, 0.9]), "must sum to 1"),
    "NaN": (rows(0, [float("nan"), 1.0]), "must be finite"),
    "text": (lambda number, sent: reply({"probs": "none"}), "returned a single value"),
}


@pytest.mark.parametrize("wrap", [lambda bad: bad, good_once], ids=["at once", "later"])
@pytest.mark.parametrize("case", BAD_RESPONSES)
def test_bad_response_is_a_one_line_error_and_writes_nothing(
    folder: Path, server: Server, case: str, wrap: Any
) -> None:
    respond, message = BAD_RESPONSES[case]
    server.respond = wrap(respond)
    # A short timeout only where the server hangs: a busy machine may be slow to respond.
    timeout = ("--timeout", "0.2" if case == "timeout" else "20")
    for words in (("--json",), ("--save-examples", "seen", "--batch-size", "40")):
        server.got.clear()
        assert_one_line_error(invariance(folder, server, *words, *timeout), message)
        assert not (folder / "seen").exists()


def test_good_responses_are_used_for_every_input(folder: Path, server: Server) -> None:
    result = run_json(folder, "invariance", server.url, *INVARIANCE)
    assert result["models"][0]["model"] == server.url.removeprefix("http://")
    sent = sum(len(request["inputs"]) for request in server.got)
    assert sent == result["sampling_cost"]["classified"]
    assert result["sampling_cost"]["drawn"] == 150
