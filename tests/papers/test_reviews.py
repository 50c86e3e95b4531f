"""Study of reviews and its masked language model: parts that need neither the data nor MiniLM."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks import masked_lm
from benchmarks.studies import reviews
from oodometer.studies.analysis._compare_measures import compare_measures
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.transforms.text.ngram_infill import CorpusFiller


class WordTokenizer:
    """Tokenizer of words separated by spaces; 1 and 2 mark the ends of a text, 3 the mask."""

    cls_token_id, sep_token_id, mask_token_id = 1, 2, 3
    vocab_size, all_special_ids = 50, (0, 1, 2, 3)

    def __call__(self, texts: list[str], **_: Any) -> dict[str, list[list[int]]]:
        return {"input_ids": [[4 + len(word) for word in text.split()] for text in texts]}


def test_windows_hold_all_tokens_between_the_special_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masked_lm, "WINDOW_TOKENS", 5)
    rows = masked_lm.windows(WordTokenizer(), ["a bb ccc dddd", "a"])
    assert rows.tolist() == [[1, 5, 6, 7, 2], [1, 8, 2, 0, 0], [1, 5, 2, 0, 0]]


def test_only_inner_tokens_are_chosen_and_most_are_masked() -> None:
    ids = np.tile([1, *[9] * 40, 2, 0, 0], (200, 1))
    rng = np.random.default_rng(0)
    chosen = masked_lm.choose(ids, rng, 0.25)
    assert not chosen[:, [0, 41, 42, 43]].any()
    assert chosen[:, 1:41].mean() == pytest.approx(0.25, abs=0.02)
    corrupted = masked_lm.corrupt(ids, chosen, rng, WordTokenizer())
    assert np.array_equal(corrupted[~chosen], ids[~chosen])
    assert np.mean(corrupted[chosen] == 3) == pytest.approx(0.8, abs=0.03)
    assert np.mean(corrupted[chosen] == 9) == pytest.approx(0.1, abs=0.03)


def test_batches_after_a_restart_are_the_same() -> None:
    rows = np.tile([1, *[9] * 20, 2], (64, 1))
    whole = dict(masked_lm.batches(rows, WordTokenizer(), 0, 6))
    again = dict(masked_lm.batches(rows, WordTokenizer(), 4, 6))
    assert list(again) == [4, 5]
    assert all(np.array_equal(again[step].corrupted, whole[step].corrupted) for step in again)
    assert not np.array_equal(whole[0].chosen, whole[1].chosen)


def test_checkpoint_restores_states_and_step(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    one, other = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    file = tmp_path / "checkpoint.pt"
    assert masked_lm._restore(file, (other,)) == 0
    masked_lm._save(file, 7, (one,))
    assert masked_lm._restore(file, (other,)) == 7
    assert torch.equal(one.weight, other.weight)


def test_head_starts_at_the_frequencies_of_the_tokens() -> None:
    torch = pytest.importorskip("torch")
    scale = torch.nn.Parameter(torch.ones(4))
    predictions = SimpleNamespace(
        bias=torch.nn.Parameter(torch.zeros(6)),
        transform=SimpleNamespace(LayerNorm=SimpleNamespace(weight=scale)),
    )
    model = SimpleNamespace(config=SimpleNamespace(vocab_size=6), cls=SimpleNamespace(predictions=predictions))  # fmt: skip
    masked_lm.initialize_head(model, WordTokenizer(), np.array([[1, 4, 4, 4, 5, 2]]))
    shares = predictions.bias.softmax(0).tolist()
    assert shares[4] == pytest.approx(3.1 / 4.6)
    assert shares[1] == pytest.approx(0.1 / 4.6)


def test_best_word_of_the_bigrams_has_the_highest_probability() -> None:
    filler = CorpusFiller.from_texts(["a red car", "a red bus", "a big car"])
    best = masked_lm._best_word(filler, "a", "car")
    chances = {word: filler.probability(word, between=("a", "car")) for word in filler.words}
    assert best == max(chances, key=lambda word: chances[word]) == "red"


# Page -------------------------------------------------------------------------------------------


def rows() -> Any:
    """Return rows of twelve models with the names of the study's measures."""
    import pyarrow as pa

    rng = np.random.default_rng(0)
    cells = []
    names = (
        "ni-ssmba model=masked_lm",
        "ni-ssmba",
        "ni-ssmba model=masked_lm strength=fixed",
        "nll",
    )
    for model in range(12):
        for tested in "abc":
            accuracy = 0.5 + 0.04 * model + 0.02 * rng.normal()
            cells += [
                {"model": f"m{model}", "trained_on": "ab"[model % 2], "tested_on": tested,
                 "accuracy": accuracy, "measure": name, "value": accuracy + 0.01 * rng.normal()}
                for name in names
            ]  # fmt: skip
    return pa.Table.from_pylist(cells)


def test_measures_are_named_by_their_filler() -> None:
    named = set(reviews.rename_measures(rows()).column("measure").to_pylist())
    assert named == {
        "ni-ssmba", "ni-ssmba filler=n-gram", "ni-ssmba strength=fixed", "nll",
    }  # fmt: skip


def test_tables_show_differences_and_the_papers_figures() -> None:
    renamed = reviews.rename_measures(rows())
    names = ["ni-ssmba", "ni-ssmba filler=n-gram", "ni-ssmba strength=fixed"]
    table = EvaluationTable.read(renamed, measures=names)
    ((_, (head, differences)),) = reviews.pairs_table(table).items()
    assert head[:2] == ("first", "second")
    assert [row[:2] for row in differences] == [
        ("ni-ssmba", "ni-ssmba filler=n-gram"), ("ni-ssmba strength=fixed", "ni-ssmba"),
    ]  # fmt: skip
    compared = compare_measures(table)
    ((_, (_, across)),) = reviews.cross_domain_table(compared).items()
    assert across[0][0] == "ni-ssmba"
    assert across[0][2] == "0.010"
    ((_, (_, deviations)),) = reviews.deviations_table(compared).items()
    assert deviations[-1] == ("atc-mc", "– (0.139)", "– (0.112)", "– (0.048)", "– (0.050)")


def test_stored_rows_keep_measures_and_metrics_only() -> None:
    kept = reviews.rows_of(rows(), ["ni-ssmba"]).column("measure").to_pylist()
    assert set(kept) == {"ni-ssmba", "nll"}
