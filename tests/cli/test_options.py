"""Option groups: their expansion into options, and the models and runners they open."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Annotated
from unittest import mock

import pytest
import typer

from oodometer.cli._options import (
    ModelOptions,
    WorkerOptions,
    given_options,
    with_option_groups,
)
from oodometer.core.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Corner:
    x: Annotated[int, typer.Option(help="Column.")] = 1
    y: Annotated[int, typer.Option(help="Row.")] = 2


def test_a_group_becomes_its_options_in_place() -> None:
    calls = []

    @with_option_groups
    def draw(name: str, *, corner: Corner, size: int = 3) -> None:
        """Draw."""
        calls.append((name, corner, size))

    assert list(inspect.signature(draw).parameters) == ["name", "x", "y", "size"]
    assert inspect.signature(draw).parameters["y"].default == 2
    draw(name="a", x=5, y=6, size=7)
    assert calls == [("a", Corner(x=5, y=6), 7)]


@dataclass(frozen=True, kw_only=True)
class Frame:
    corner: Corner
    width: Annotated[int, typer.Option(help="Width.")] = 4


def test_groups_of_groups_are_expanded_and_made() -> None:
    calls = []

    @with_option_groups
    def draw(*, frame: Frame, corner: Corner) -> None:
        """Draw."""
        calls.append((frame, corner))

    # Both groups have the options of the corner, which appear once.
    assert list(inspect.signature(draw).parameters) == ["x", "y", "width"]
    draw(x=5, y=2, width=4)
    corner = Corner(x=5, y=2)
    assert calls == [(Frame(corner=corner, width=4), corner)]
    assert given_options(calls[0][0]) == {"--x": 5}


def test_pixel_scaling_is_passed_to_onnx_models() -> None:
    options = ModelOptions(
        class_names="cat,dog", outputs="logits", mean="0.5,0.4,0.3", std="0.2,0.2,0.1"
    )
    with mock.patch("oodometer.models.OnnxModel") as model:
        options.open("m.onnx")
    model.assert_called_once_with(
        "m.onnx",
        class_names=["cat", "dog"],
        outputs="logits",
        mean=(0.5, 0.4, 0.3),
        std=(0.2, 0.2, 0.1),
    )


def test_error_on_invalid_numbers_names_the_option() -> None:
    with pytest.raises(InputError, match=r"--std must be numbers separated by .*; got 'a,b'"):
        ModelOptions(mean="0.5", std="a,b").open("m.onnx")


def test_timeout_is_passed_to_http_models() -> None:
    with mock.patch("oodometer.models.HttpModel") as model:
        ModelOptions(timeout=3.0).open("http://127.0.0.1/")
    assert model.call_args.kwargs["timeout"] == 3.0


def test_without_workers_the_optional_runner_is_none() -> None:
    assert WorkerOptions().optional_runner() is None
    assert WorkerOptions(workers=1).optional_runner() is not None
