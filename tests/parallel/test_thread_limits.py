"""Limit of one thread."""

from __future__ import annotations

import torch

from oodometer.parallel.runners import limit_to_one_thread


def test_thread_count_is_limited_and_restored() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with limit_to_one_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
