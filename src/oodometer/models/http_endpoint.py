"""A classifier behind an address, asked with JSON.

What is sent, by POST:    {"inputs": [row, row, …]}
What must come back:      {"probs": [[…], …]}, {"logits": [[…], …]} or {"classes": […]}

A text is a string, a pair a list of two strings, an image a list of rows of pixels 0…255 (each a
number, or a list of channels), a vector a list of numbers, a row of a table an object by column.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, NamedTuple
from urllib import error, request
from urllib.parse import urlsplit

import numpy as np

from oodometer.core.errors import InputError
from oodometer.core.inputs import Inputs, is_table
from oodometer.models._raw_outputs import FORMS, Answer, one_line
from oodometer.models.base import Adapter

ROWS = 64
LARGEST = 256 * 1024 * 1024
# No wait between two tries is longer than this, whatever the server asks for.
LONGEST_WAIT = 60.0


class _Failure(NamedTuple):
    """Why a try failed, whether another may do better, and how long the server says to wait."""

    why: str
    again: bool
    wait: float | None = None


class _NoRedirects(request.HTTPRedirectHandler):
    """An answer from elsewhere is no answer: inputs go to the given address alone."""

    def redirect_request(self, *_: Any) -> None:
        """Leave it to be an error."""


@dataclass(frozen=True, eq=False, repr=False)
class HttpModel(Adapter):
    """A classifier behind an address; the format is above.

    A try ends after `timeout` seconds. Time-outs, lost connections and the answers 429 and 5xx are
    tried again, up to `retries` times, after `pause` seconds, then twice as many, and so on, or as
    Retry-After says, but never more than 60. Inputs go to that address alone: redirects are
    refused, and proxies of the environment are not used.
    """

    url: str
    _: KW_ONLY
    timeout: float = 30.0
    retries: int = 4
    pause: float = 0.5
    headers: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(
                f"{self.url!r} is no address of a model. It must begin with http:// or https:// "
                "and name a host."
            )
        if self.timeout <= 0 or self.retries < 0 or self.pause < 0:
            raise InputError(
                f"timeout must be above 0, retries and pause 0 or more; got {self.timeout}, "
                f"{self.retries} and {self.pause}."
            )

    def given_name(self) -> str:
        """The host and the path, without a password."""
        parts = urlsplit(self.url)
        return parts.netloc.rpartition("@")[2] + parts.path.rstrip("/")

    def rows_at_once(self, inputs: Inputs) -> int:
        """64 rows a request."""
        return self.batch or ROWS

    def answer(self, inputs: Inputs) -> Answer:
        """What the server says."""
        rows = (self.prepare or _plain)(inputs)
        reply = self._reply(json.dumps({"inputs": rows}).encode())
        given = [form for form in FORMS if isinstance(reply, dict) and form in reply]
        wanted = [self.outputs] if self.outputs else list(FORMS)
        found = [form for form in wanted if form in given]
        if len(found) != 1:
            said = f"the keys {sorted(reply)}" if isinstance(reply, dict) else "no object"
            raise InputError(
                f"The model {self.name!r} answered with {said[:200]}. It must answer with one of "
                f"the keys {', '.join(wanted)}."
            )
        return Answer(reply[found[0]], found[0])

    def _reply(self, body: bytes) -> Any:
        tries = 0
        while True:
            reply = self._tried(body)
            tries += 1
            if isinstance(reply, bytes):
                return _parsed(reply, self.name)
            if not reply.again or tries > self.retries:
                break
            wait = self.pause * 2 ** (tries - 1) if reply.wait is None else reply.wait
            time.sleep(min(wait, LONGEST_WAIT))
        times = "" if tries == 1 else f" after {tries} tries"
        raise InputError(
            f"The model at {self.url} did not answer{times}: {reply.why}. "
            "See that it runs and takes the format that oodometer.models.http_endpoint describes."
        )

    def _tried(self, body: bytes) -> bytes | _Failure:
        # An empty table of proxies is none at all, whatever the environment says.
        opener = request.build_opener(request.ProxyHandler({}), _NoRedirects())
        headers = {"Content-Type": "application/json", **self.headers}
        asked = request.Request(self.url, data=body, headers=headers, method="POST")
        try:
            with opener.open(asked, timeout=self.timeout) as response:
                return _read(response, time.monotonic() + self.timeout)
        except error.HTTPError as refusal:
            with refusal:
                return _refused(refusal)
        except TimeoutError:
            return _Failure(f"no answer within {self.timeout:g} seconds", again=True)
        except (OSError, http.client.HTTPException) as lost:
            cause = lost.reason if isinstance(lost, error.URLError) else lost
            if isinstance(cause, TimeoutError):
                return _Failure(f"no answer within {self.timeout:g} seconds", again=True)
            shown = one_line(cause) if isinstance(cause, BaseException) else str(cause)
            return _Failure(shown, again=True)


def _plain(inputs: Inputs) -> Any:
    if is_table(inputs):
        return inputs.to_pylist()
    return inputs.tolist() if isinstance(inputs, np.ndarray) else inputs


def _read(response: Any, deadline: float) -> bytes | _Failure:
    """The body, unless it is too long in size or in time."""
    parts, size = [], 0
    while part := response.read1(1 << 20):
        parts.append(part)
        size += len(part)
        if size > LARGEST:
            return _Failure(f"its answer is larger than {LARGEST >> 20} MB", again=False)
        if time.monotonic() > deadline:
            raise TimeoutError
    return b"".join(parts)


def _refused(refusal: error.HTTPError) -> _Failure:
    code, place = refusal.code, refusal.headers.get("Location")
    if 300 <= code < 400:
        why = f"it redirects to {place}, and inputs go to the given address alone"
        return _Failure(why, again=False)
    try:
        body = " ".join(refusal.read(1000).decode("utf-8", "replace").split())[:200]
    except (OSError, http.client.HTTPException):
        body = ""
    why = f"{code} {refusal.reason}" + (f": {body}" if body else "")
    after = refusal.headers.get("Retry-After", "")
    return _Failure(why, code == 429 or code >= 500, float(after) if after.isdecimal() else None)


def _parsed(body: bytes, name: str) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as problem:
        shown = " ".join(body[:200].decode("utf-8", "replace").split())
        raise InputError(
            f"The model {name!r} answered with what is no JSON: {shown!r}. It must answer with an "
            "object with the key probs, logits or classes."
        ) from problem
