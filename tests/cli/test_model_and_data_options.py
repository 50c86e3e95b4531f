"""What is opened from the options of a command."""

from __future__ import annotations

from unittest import mock

import pytest

from oodometer.cli._options import open_model
from oodometer.core.errors import InputError


def test_the_scaling_of_pixels_goes_to_an_onnx_file() -> None:
    with mock.patch("oodometer.models.OnnxModel") as made:
        open_model("m.onnx", "cat,dog", "logits", False, ("0.5,0.4,0.3", "0.2,0.2,0.1"), None)
    made.assert_called_once_with(
        "m.onnx", class_names=["cat", "dog"], outputs="logits", mean=(0.5, 0.4, 0.3),
        std=(0.2, 0.2, 0.1),
    )  # fmt: skip


def test_what_is_no_number_is_named_with_its_option() -> None:
    with pytest.raises(InputError, match=r"--std is numbers separated by commas, .*; got 'a,b'"):
        open_model("m.onnx", None, None, False, ("0.5", "a,b"), None)


def test_the_timeout_goes_to_an_address() -> None:
    with mock.patch("oodometer.models.HttpModel") as made:
        open_model("http://127.0.0.1/", None, None, False, (None, None), 3.0)
    assert made.call_args.kwargs["timeout"] == 3.0
