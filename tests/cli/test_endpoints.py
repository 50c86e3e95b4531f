"""Models behind an address, asked by a command: what goes wrong is one line, and nothing else."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.models.test_http_endpoint import Reply, Server, good, reply
from tests.support.command_line import Done, run


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """One that is asked again at once."""
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    made = Server()
    # Who hangs up on it is not to be heard of on a command's standard error.
    made.server.handle_error = lambda *_: None  # type: ignore[method-assign]
    yield made
    made.close()


def asked(folder: Path, server: Server, *words: str) -> Done:
    images = np.random.default_rng(0).integers(0, 256, (30, 8, 8), dtype=np.uint8)
    np.save(folder / "digits.npy", images)
    return run(folder, "invariance", server.url, "digits.npy", "-t", "translate", "-n", "4", *words)


def hang(number: int, sent: Any) -> Reply:
    threading.Event().wait(0.5)
    return good(sent)


def later(bad: Callable[[int, Any], Reply]) -> Callable[[int, Any], Reply]:
    """Well the first time, badly after it."""
    return lambda number, sent: good(sent) if number == 1 else bad(number, sent)


def rows(count: int, row: list[float]) -> Callable[[int, Any], Reply]:
    return lambda number, sent: reply({"probs": [row] * (len(sent["inputs"]) + count)})


BAD: dict[str, tuple[Callable[[int, Any], Reply], str]] = {
    "500": (lambda number, sent: reply(b"out of paper", 500), "after 5 tries: 500"),
    "404": (lambda number, sent: reply(b"", 404), "did not answer: 404"),
    "hangs": (hang, "no answer within 0.2 seconds"),
    "no JSON": (lambda number, sent: reply(b"<html>"), "what is no JSON: '<html>'"),
    "other keys": (lambda number, sent: reply({"odds": []}), "the keys ['odds']"),
    "no object": (lambda number, sent: reply([1, 2]), "answered with no object"),
    "a row too few": (rows(-1, [0.5, 0.5]), "rows for"),
    "a row too many": (rows(1, [0.5, 0.5]), "rows for"),
    "no probabilities": (rows(0, [0.5, 0.9]), "must sum to 1"),
    "NaN": (rows(0, [float("nan"), 1.0]), "must be finite"),
    "words": (lambda number, sent: reply({"probs": "none"}), "gave a single value"),
}


@pytest.mark.parametrize("when", [lambda bad: bad, later], ids=["at once", "later"])
@pytest.mark.parametrize("case", BAD)
def test_a_bad_answer_is_one_line_and_nothing_is_written(
    tmp_path: Path, server: Server, case: str, when: Any
) -> None:
    server.respond = when(BAD[case][0])
    # Only who hangs is waited for shortly: a busy machine may take its time to answer.
    timeout = ("--timeout", "0.2" if case == "hangs" else "20")
    for words in (("--json",), ("--save-examples", "seen", "--batch-size", "40")):
        server.got.clear()
        done = asked(tmp_path, server, *words, *timeout)
        assert (done.returncode, done.stdout) == (2, "")
        assert len(done.stderr.splitlines()) == 1
        assert BAD[case][1] in done.stderr
        assert not (tmp_path / "seen").exists()


def test_a_good_one_is_asked_for_every_input_and_told_from_a_bad_one(
    tmp_path: Path, server: Server
) -> None:
    done = asked(tmp_path, server, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["models"][0]["model"] == server.url.removeprefix("http://")
    assert sum(len(sent["inputs"]) for sent in server.got) == found["sampling_cost"]["classified"]
    assert found["sampling_cost"]["drawn"] == 150
