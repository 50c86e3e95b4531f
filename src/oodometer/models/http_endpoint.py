"""Adapter of classifiers behind an HTTP endpoint that receives and returns JSON.

Request (POST):  {"inputs": [row, row, …]}
Response:        {"probs": [[…], …]}, {"logits": [[…], …]} or {"classes": […]}

Each kind of input row has its own JSON form:

- A text is a string.
- A pair of texts is a list of two strings.
- An image is a list of pixel rows. A pixel is a number from 0 to 255, or a list of such numbers,
  one per channel.
- A vector is a list of numbers.
- A row of a table is an object with one key per column.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any
from urllib import error, request
from urllib.parse import urlsplit

import numpy as np

from oodometer.core.errors import InputError, out_of_range
from oodometer.core.inputs import Inputs, is_table
from oodometer.models.base import OUTPUT_TYPES, ModelAdapter, RawOutputs, exception_summary

DEFAULT_REQUEST_ROWS = 64
MAX_RESPONSE_BYTES = 256 * 1024 * 1024
# Longest wait between two attempts, even if the server requests a longer one.
MAX_WAIT_SECONDS = 60.0


@dataclass(frozen=True, eq=False, repr=False)
class HttpModel(ModelAdapter):
    """A classifier behind an HTTP endpoint.

    The docstring of this module describes the JSON format.

    A request is repeated after a time-out, a lost connection, or a response with status code 429 or
    5xx. The first wait is `pause` seconds long, and each further wait is twice as long as the one
    before it. If the response has a Retry-After header, its value is used instead. No wait is
    longer than 60 seconds. Inputs are sent to the given URL only: redirects are rejected, and
    proxies that are set in environment variables are not used.

    Parameters
    ----------
    url : str
        URL of the endpoint, beginning with http:// or https://.
    timeout : float
        Seconds after which an attempt without a complete response fails.
    retries : int
        Maximum number of attempts after the first one.
    pause : float
        Seconds to wait before the second attempt.
    headers : mapping from str to str
        Additional HTTP headers, for example for authorization.
    name, class_names, outputs
        See `ModelAdapter`.
    prepare : callable, optional
        Function that converts a batch to the JSON value of the key "inputs".
    batch_size : int, optional
        Number of rows per request. Default: 64.

    Raises
    ------
    InputError
        If the URL or another parameter is invalid.

    Examples
    --------
    >>> HttpModel("http://localhost:8000/classify", retries=1)
    HttpModel('localhost:8000/classify')
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
                f"{self.url!r} is not the URL of a model. It must begin with http:// or "
                "https:// and name a host."
            )
        if self.timeout <= 0:
            raise out_of_range("timeout", self.timeout, above=0)
        if self.retries < 0:
            raise out_of_range("retries", self.retries, low=0)
        if self.pause < 0:
            raise out_of_range("pause", self.pause, low=0)

    def default_name(self) -> str:
        """Return the host and the path of the URL, without user name and password."""
        parts = urlsplit(self.url)
        return parts.netloc.rpartition("@")[2] + parts.path.rstrip("/")

    def rows_per_batch(self, inputs: Inputs) -> int:
        return self.batch_size or DEFAULT_REQUEST_ROWS

    def raw_outputs(self, inputs: Inputs) -> RawOutputs:
        rows = (self.prepare or _to_json_rows)(inputs)
        response = self._post_with_retries(json.dumps({"inputs": rows}).encode())
        allowed = [self.outputs] if self.outputs else list(OUTPUT_TYPES)
        present = [key for key in allowed if isinstance(response, dict) and key in response]
        if len(present) != 1:
            is_object = isinstance(response, dict)
            shown = f"the keys {sorted(response)}" if is_object else "no JSON object"
            raise InputError(
                f"The response of the model {self.name!r} has {shown[:200]}. It must have exactly "
                f"one of the keys {', '.join(allowed)}."
            )
        return RawOutputs(response[present[0]], present[0])

    def _post_with_retries(self, body: bytes) -> Any:
        attempt = 0
        while True:
            attempt += 1
            try:
                return _parse_json(self._post_once(body), self.name)
            except _RequestError as failure:
                if failure.is_retryable and attempt <= self.retries:
                    wait = failure.retry_after_seconds
                    if wait is None:
                        wait = self.pause * 2 ** (attempt - 1)
                    time.sleep(min(wait, MAX_WAIT_SECONDS))
                    continue
                times = "" if attempt == 1 else f" after {attempt} attempts"
                raise InputError(
                    f"The request to the model at {self.url} failed{times}: {failure}. Check that "
                    "the server is running and uses the JSON format described in "
                    "oodometer.models.http_endpoint."
                ) from failure

    def _post_once(self, body: bytes) -> bytes:
        # An empty dict of proxies disables the proxies that are set in environment variables.
        opener = request.build_opener(request.ProxyHandler({}), _NoRedirects())
        headers = {"Content-Type": "application/json", **self.headers}
        post = request.Request(self.url, data=body, headers=headers, method="POST")
        timed_out = _RequestError(f"no response within {self.timeout:g} seconds", retryable=True)
        try:
            with opener.open(post, timeout=self.timeout) as response:
                return _read_body(response, time.monotonic() + self.timeout)
        except error.HTTPError as status:
            with status:
                raise _status_error(status) from status
        except TimeoutError as failure:
            raise timed_out from failure
        except (OSError, http.client.HTTPException) as failure:
            cause = failure.reason if isinstance(failure, error.URLError) else failure
            if isinstance(cause, TimeoutError):
                raise timed_out from failure
            shown = exception_summary(cause) if isinstance(cause, BaseException) else str(cause)
            raise _RequestError(shown, retryable=True) from failure


class _RequestError(Exception):
    """Failure of one attempt to send a request."""

    def __init__(
        self, reason: str, *, retryable: bool, retry_after_seconds: float | None = None
    ) -> None:
        super().__init__(reason)
        self.is_retryable = retryable
        self.retry_after_seconds = retry_after_seconds


class _NoRedirects(request.HTTPRedirectHandler):
    """Handler that treats redirects as errors, because inputs are sent to the given URL only."""

    def redirect_request(self, *_: Any) -> None:
        """Return no new request, so that the redirect is not followed."""


def _to_json_rows(inputs: Inputs) -> Any:
    if is_table(inputs):
        return inputs.to_pylist()
    return inputs.tolist() if isinstance(inputs, np.ndarray) else inputs


def _read_body(response: Any, deadline: float) -> bytes:
    """Read the body of a response; raise if it is too large or not complete by the deadline."""
    parts: list[bytes] = []
    size = 0
    while part := response.read1(1 << 20):
        parts.append(part)
        size += len(part)
        if size > MAX_RESPONSE_BYTES:
            raise _RequestError(
                f"the response is larger than {MAX_RESPONSE_BYTES >> 20} MB", retryable=False
            )
        if time.monotonic() > deadline:
            raise TimeoutError
    return b"".join(parts)


def _status_error(status: error.HTTPError) -> _RequestError:
    """Return the error for an HTTP status code that does not mean success."""
    if 300 <= status.code < 400:
        location = status.headers.get("Location")
        return _RequestError(
            f"it redirects to {location}, and inputs are sent to the given URL only",
            retryable=False,
        )
    try:
        body = " ".join(status.read(1000).decode("utf-8", "replace").split())[:200]
    except (OSError, http.client.HTTPException):
        body = ""
    reason = f"{status.code} {status.reason}" + (f": {body}" if body else "")
    retry_after = status.headers.get("Retry-After", "")
    return _RequestError(
        reason,
        retryable=status.code == 429 or status.code >= 500,
        retry_after_seconds=float(retry_after) if retry_after.isdecimal() else None,
    )


def _parse_json(body: bytes, name: str) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as problem:
        shown = " ".join(body[:200].decode("utf-8", "replace").split())
        raise InputError(
            f"The response of the model {name!r} is not JSON: {shown!r}. It must be an object with "
            "the key probs, logits or classes."
        ) from problem
