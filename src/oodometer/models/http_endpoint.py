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
from oodometer.models.base import OUTPUT_TYPES, ModelAdapter, RawOutputs, exception_summary

DEFAULT_REQUEST_ROWS = 64
MAX_RESPONSE_BYTES = 256 * 1024 * 1024
# No wait between two tries is longer than this, whatever the server asks for.
MAX_WAIT_SECONDS = 60.0


class _RequestFailure(NamedTuple):
    """Why a try failed, whether another may do better, and how long the server says to wait."""

    reason: str
    is_retryable: bool
    retry_after_seconds: float | None = None


class _NoRedirects(request.HTTPRedirectHandler):
    """An answer from elsewhere is no answer: inputs go to the given address alone."""

    def redirect_request(self, *_: Any) -> None:
        """Leave it to be an error."""


@dataclass(frozen=True, eq=False, repr=False)
class HttpModel(ModelAdapter):
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

    def default_name(self) -> str:
        """The host and the path, without a password."""
        parts = urlsplit(self.url)
        return parts.netloc.rpartition("@")[2] + parts.path.rstrip("/")

    def rows_per_batch(self, inputs: Inputs) -> int:
        """64 rows a request."""
        return self.batch_size or DEFAULT_REQUEST_ROWS

    def raw_outputs(self, inputs: Inputs) -> RawOutputs:
        """What the server says."""
        rows = (self.prepare or _to_json_rows)(inputs)
        reply = self._post_with_retries(json.dumps({"inputs": rows}).encode())
        given = [form for form in OUTPUT_TYPES if isinstance(reply, dict) and form in reply]
        wanted = [self.outputs] if self.outputs else list(OUTPUT_TYPES)
        found = [form for form in wanted if form in given]
        if len(found) != 1:
            said = f"the keys {sorted(reply)}" if isinstance(reply, dict) else "no object"
            raise InputError(
                f"The model {self.name!r} answered with {said[:200]}. It must answer with one of "
                f"the keys {', '.join(wanted)}."
            )
        return RawOutputs(reply[found[0]], found[0])

    def _post_with_retries(self, body: bytes) -> Any:
        tries = 0
        while True:
            reply = self._post_once(body)
            tries += 1
            if isinstance(reply, bytes):
                return _parse_json(reply, self.name)
            if not reply.is_retryable or tries > self.retries:
                break
            wait = (
                self.pause * 2 ** (tries - 1)
                if reply.retry_after_seconds is None
                else reply.retry_after_seconds
            )
            time.sleep(min(wait, MAX_WAIT_SECONDS))
        times = "" if tries == 1 else f" after {tries} tries"
        raise InputError(
            f"The model at {self.url} did not answer{times}: {reply.reason}. "
            "See that it runs and takes the format that oodometer.models.http_endpoint describes."
        )

    def _post_once(self, body: bytes) -> bytes | _RequestFailure:
        # An empty table of proxies is none at all, whatever the environment says.
        opener = request.build_opener(request.ProxyHandler({}), _NoRedirects())
        headers = {"Content-Type": "application/json", **self.headers}
        asked = request.Request(self.url, data=body, headers=headers, method="POST")
        try:
            with opener.open(asked, timeout=self.timeout) as response:
                return _read_body(response, time.monotonic() + self.timeout)
        except error.HTTPError as refusal:
            with refusal:
                return _failure_from_status(refusal)
        except TimeoutError:
            return _RequestFailure(f"no answer within {self.timeout:g} seconds", is_retryable=True)
        except (OSError, http.client.HTTPException) as lost:
            cause = lost.reason if isinstance(lost, error.URLError) else lost
            if isinstance(cause, TimeoutError):
                return _RequestFailure(
                    f"no answer within {self.timeout:g} seconds", is_retryable=True
                )
            shown = exception_summary(cause) if isinstance(cause, BaseException) else str(cause)
            return _RequestFailure(shown, is_retryable=True)


def _to_json_rows(inputs: Inputs) -> Any:
    if is_table(inputs):
        return inputs.to_pylist()
    return inputs.tolist() if isinstance(inputs, np.ndarray) else inputs


def _read_body(response: Any, deadline: float) -> bytes | _RequestFailure:
    """The body, unless it is too long in size or in time."""
    parts, size = [], 0
    while part := response.read1(1 << 20):
        parts.append(part)
        size += len(part)
        if size > MAX_RESPONSE_BYTES:
            return _RequestFailure(
                f"its answer is larger than {MAX_RESPONSE_BYTES >> 20} MB", is_retryable=False
            )
        if time.monotonic() > deadline:
            raise TimeoutError
    return b"".join(parts)


def _failure_from_status(refusal: error.HTTPError) -> _RequestFailure:
    code, place = refusal.code, refusal.headers.get("Location")
    if 300 <= code < 400:
        why = f"it redirects to {place}, and inputs go to the given address alone"
        return _RequestFailure(why, is_retryable=False)
    try:
        body = " ".join(refusal.read(1000).decode("utf-8", "replace").split())[:200]
    except (OSError, http.client.HTTPException):
        body = ""
    why = f"{code} {refusal.reason}" + (f": {body}" if body else "")
    after = refusal.headers.get("Retry-After", "")
    return _RequestFailure(
        why, code == 429 or code >= 500, float(after) if after.isdecimal() else None
    )


def _parse_json(body: bytes, name: str) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as problem:
        shown = " ".join(body[:200].decode("utf-8", "replace").split())
        raise InputError(
            f"The model {name!r} answered with what is no JSON: {shown!r}. It must answer with an "
            "object with the key probs, logits or classes."
        ) from problem
