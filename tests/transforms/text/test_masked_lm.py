from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from oodometer.core.errors import InputError
from oodometer.transforms.text.masked_lm import MaskedLanguageModel, draw_token_corruption
from oodometer.transforms.text.ssmba import SSMBA
from tests.transforms.text.test_word_splitting import draws_for

WORDS = ["the", "a", "cat", "dog", "runs", "sleeps", "well", "very", "##ing", "##s", ".", ","]
TEXTS = [
    "the cat runs .",
    "A dog sleeps very, very well",
    "",
    "?",
    "the  dog",
    "the cat and the dogs run " * 9,
    "cat",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Save a two-layer BERT with seventeen tokens."""
    import torch
    import transformers

    place = tmp_path_factory.mktemp("bert")
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    (place / "vocab.txt").write_text("\n".join(vocabulary))
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(vocabulary), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=40, initializer_range=0.5,
    )  # fmt: skip
    make: Any = transformers.BertForMaskedLM  # whether its call is typed depends on the version
    model = make(config)
    model.save_pretrained(place)
    transformers.AutoTokenizer.from_pretrained(place).save_pretrained(place)
    return place


def test_batch_does_not_change_results(folder: Path) -> None:
    transform = SSMBA(magnitude=0.5, model=folder)
    draws = draws_for(TEXTS)
    whole = transform.learn(TEXTS).apply(TEXTS, draws)
    alone = [transform.apply([t], draws.rows(slice(i, i + 1)))[0] for i, t in enumerate(TEXTS)]
    assert whole == alone
    assert sum(a != b for a, b in zip(whole, TEXTS, strict=True)) >= 3
    assert whole[2:4] == TEXTS[2:4]


@pytest.mark.parametrize("kind", ["Bert", "Roberta", "DistilBert"])
def test_scores_of_chosen_positions_are_those_of_the_whole_network(kind: str) -> None:
    import torch
    import transformers

    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    if kind == "DistilBert":
        sizes = {"dim": 16, "hidden_dim": 32, "n_layers": 1, "n_heads": 2}
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=17, max_position_embeddings=40, pad_token_id=0, initializer_range=0.5, **sizes
    )
    network = getattr(transformers, f"{kind}ForMaskedLM")(config).eval()
    tokenizer: Any = SimpleNamespace(pad_token_id=0)
    model = MaskedLanguageModel(tokenizer, network, np.ones(17, dtype=bool), False)
    rows, positions = [[2, 5, 6, 3], [2, 7, 3]], [(0, 1), (0, 2), (1, 1)]
    with torch.no_grad():
        whole = network(
            input_ids=torch.tensor([[2, 5, 6, 3], [2, 7, 3, 0]]),
            attention_mask=torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]]),
        ).logits.numpy()
        chosen = model._logits(rows, positions)
    assert chosen.shape == (3, 17)
    for scores, (row, index) in zip(chosen, positions, strict=True):
        np.testing.assert_allclose(scores, whole[row, index], rtol=1e-4, atol=1e-5)


def test_special_tokens_are_never_sampled(folder: Path) -> None:
    model = MaskedLanguageModel.load(folder)
    proposed = {
        model.tokenizer.convert_ids_to_tokens(int(i)) for i in np.flatnonzero(model.allowed_tokens)
    }
    assert proposed == set(WORDS)
    scores = np.log(np.arange(1.0, len(model.allowed_tokens) + 1))
    weights = np.where(model.allowed_tokens, np.exp(scores), 0.0)
    grid = (np.arange(20_000) + 0.5) / 20_000
    drawn = np.bincount([model._sample_token(scores, u) for u in grid], minlength=len(weights))
    np.testing.assert_allclose(drawn / len(grid), weights / weights.sum(), atol=1e-3)


def test_other_tokens_stay_byte_for_byte(folder: Path) -> None:
    text = "  The\tCAT !!  runs…  \n"
    for number in range(1, 30):
        changed = SSMBA(magnitude=0.01, model=folder).apply([text], draws_for([text], number))[0]
        assert sum(part in changed for part in ("  The\t", "CAT !!", "  runs…")) >= 1
        assert changed.startswith("  ")
        assert changed.endswith("  \n")


def test_word_pieces_are_spliced_with_correct_spaces(folder: Path) -> None:
    model = MaskedLanguageModel.load(folder)
    number: dict[str, int] = model.tokenizer.get_vocab()
    spans = [(1, 0, 3), (2, 3, 4)]
    old = [number["cat"], number["##s"]]
    assert model._splice("cats!", spans, old, [number["dog"], number["##ing"]]) == "doging!"
    assert model._splice("cats!", spans, old, [number["cat"], number["well"]]) == "cat well!"


def test_byte_level_tokens_are_spliced() -> None:
    import tokenizers
    import transformers

    vocabulary = {"<mask>": 0, "a": 1, "Ġa": 2, "b": 3, "Ġb": 4, "Ġ": 5}
    inner = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, [("Ġ", "a"), ("Ġ", "b")]))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = tokenizers.decoders.ByteLevel()
    tokenizer = transformers.PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=inner, mask_token="<mask>", model_max_length=9
    )

    class Net:
        class config:
            max_position_embeddings = 9

    model = MaskedLanguageModel(tokenizer, Net(), np.ones(6, dtype=np.bool_), True)
    ids, spans = model._encode("a ba")
    assert ids == [1, 4, 1]
    assert spans == [(0, 0, 1), (1, 2, 3), (2, 3, 4)]
    assert model._splice("a ba", spans, ids, [1, 2, 4]) == "a a b"
    assert model._splice("a ba", spans, ids, [1, 4, 3]) == "a bb"


def test_long_texts_change_within_the_window_only(folder: Path) -> None:
    text = "cat " * 300
    changed = SSMBA(magnitude=1.0, model=folder).apply([text], draws_for([text]))[0]
    assert changed != text
    assert changed.endswith("cat " * 262)


def test_model_weights_are_not_changed(folder: Path) -> None:
    model = MaskedLanguageModel.load(folder).model
    before: dict[str, Any] = {name: value.clone() for name, value in model.state_dict().items()}
    SSMBA(model=folder).apply(TEXTS, draws_for(TEXTS))
    assert not model.training
    assert all((value == before[name]).all() for name, value in model.state_dict().items())


def test_folder_without_a_model_raises(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Cannot open .* as a masked language model") as caught:
        SSMBA(model=tmp_path / "none").apply(["a"], draws_for(["a"]))
    assert "\n" not in str(caught.value)


def test_80_percent_are_masked_and_10_percent_replaced() -> None:
    rng = np.random.default_rng(0)
    drawn = [draw_token_corruption(100, 0.15, rng) for _ in range(2000)]
    sizes = [len(chosen) for chosen, _, _ in drawn]
    assert (min(sizes), max(sizes)) == (1, 15)
    assert all((np.diff(chosen) > 0).all() for chosen, _, _ in drawn)
    assert np.concatenate([m for _, m, _ in drawn]).mean() == pytest.approx(0.8, abs=0.02)
    assert np.concatenate([m for _, _, m in drawn]).mean() == pytest.approx(0.1, abs=0.02)
