"""Back-translation by two Marian models in the published format, end to end."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oodometer import invariance
from oodometer.core.errors import InputError
from oodometer.core.random_streams import RowStreams
from oodometer.models import as_model
from oodometer.transforms.text import marian as module
from oodometer.transforms.text.backtranslation import BackTranslation
from oodometer.transforms.text.marian import MAX_TOKENS, Marian
from tests.support.marian_folders import ENGLISH, GERMAN, write_marian_folders
from tests.transforms.text.test_word_splitting import draws_for

TEXTS = ["the cat runs . a dog sleeps well .", "a good book about dogs", "", "?", "Über-cats!"]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Marian:
    return Marian(*write_marian_folders(tmp_path_factory.mktemp("marian")))


def test_folders_have_the_files_of_published_models(pair: Marian) -> None:
    for folder in (pair.forward, pair.backward):
        assert {path.name for path in folder.iterdir()} == {
            "config.json", "model.safetensors", "source.spm", "target.spm",
            "tokenizer_config.json", "vocab.json",
        }  # fmt: skip
        config = json.loads((folder / "config.json").read_text())
        assert (config["model_type"], config["num_beams"]) == ("marian", 6)


def test_models_are_loaded_with_their_own_tokenizers_without_warnings(pair: Marian) -> None:
    module._load_model.cache_clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tokenizer, model = module._load_model(pair.forward)
    assert type(tokenizer).__name__ == "MarianTokenizer"
    assert type(model).__name__ == "MarianMTModel"
    assert not model.training
    assert (tokenizer.source_lang, tokenizer.target_lang) == ("en", "de")
    ids = tokenizer(ENGLISH[0])["input_ids"]
    assert ids[-1] == tokenizer.eos_token_id
    assert tokenizer.unk_token_id not in ids
    target = tokenizer(text_target=GERMAN[0])["input_ids"]
    assert tokenizer.decode(target, skip_special_tokens=True) == GERMAN[0]


def test_sampling_at_a_low_temperature_is_greedy_search(pair: Marian) -> None:
    """The reference is the greedy search of transformers, which never outputs the padding token."""
    import torch

    tokenizer, model = module._load_model(pair.forward)
    sentences = [*ENGLISH, "a cat", "dogs and dogs and dogs"]
    uniforms = np.random.default_rng(0).random((len(sentences), MAX_TOKENS))
    sampled = module._sample_translations(
        pair.forward, sentences, np.full(len(sentences), 1e-6), uniforms
    )
    for sentence, result in zip(sentences, sampled, strict=True):
        encoding = tokenizer(sentence, return_tensors="pt")
        with torch.no_grad():
            tokens = model.generate(
                **encoding, num_beams=1, do_sample=False, max_length=None,
                max_new_tokens=2 * encoding["input_ids"].shape[1] + 11,
            )  # fmt: skip
        assert result == tokenizer.decode(tokens[0], skip_special_tokens=True)
    assert len(set(sampled)) > 1


def test_tokens_follow_the_softmax_at_the_temperature(pair: Marian) -> None:
    """First tokens of many samples, compared with softmax(logits / temperature)."""
    import torch

    tokenizer, model = module._load_model(pair.forward)
    n, temperature = 2000, 0.7
    encoding = tokenizer(ENGLISH[1], return_tensors="pt")
    start = torch.tensor([[model.config.decoder_start_token_id]])
    with torch.no_grad():
        logits = model(**encoding, decoder_input_ids=start).logits[0, -1].double().numpy()
    logits[model.config.pad_token_id] = -np.inf
    expected = np.exp((logits - logits.max()) / temperature)
    expected /= expected.sum()
    uniforms = (np.arange(n) + 0.5) / n
    tokens = module._sample_next(
        np.tile(logits, (n, 1)), np.full(n, temperature), uniforms, model.config
    )
    np.testing.assert_allclose(
        np.bincount(tokens, minlength=len(expected)) / n, expected, atol=1 / n
    )


def test_translations_depend_on_the_seed_and_the_draw_only(pair: Marian) -> None:
    transform = BackTranslation(translator=pair)
    keys = draws_for(TEXTS).row_keys

    def translate(seed: int, draw: int) -> list[str]:
        draws = RowStreams(seed, keys, np.full(len(TEXTS), draw))
        result: list[str] = transform.apply(TEXTS, draws)
        return result

    first = translate(0, 1)
    module._load_model.cache_clear()
    assert translate(0, 1) == first
    assert translate(0, 2) != first
    assert translate(1, 1) != first
    assert first[0] != TEXTS[0]
    assert first[2:4] == TEXTS[2:4]


def test_batch_size_does_not_change_translations(
    pair: Marian, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [*TEXTS, *ENGLISH]
    transform, draws = BackTranslation(translator=pair), draws_for(texts)
    whole = transform.apply(texts, draws)
    alone = [transform.apply([t], draws.rows(slice(i, i + 1)))[0] for i, t in enumerate(texts)]
    assert whole == alone
    monkeypatch.setattr(module, "BATCH_SENTENCES", 3)
    assert transform.apply(texts, draws) == whole


def test_invariance_uses_the_models_and_does_not_depend_on_batches(pair: Marian) -> None:
    model = as_model(lambda texts: [len(text) % 2 for text in texts], name="length")
    texts = [*TEXTS[:2], *ENGLISH[:2]]
    options: dict[str, Any] = {"transform": BackTranslation(translator=pair), "draws": 3}
    whole = invariance(model, texts, **options)
    assert whole.measure_label("ni") == "NI-BT"
    small = invariance(model, texts, **options, batch_size=3, threads=0)
    assert np.array_equal(whole[0].counts.classes, small[0].counts.classes)
    assert whole[0].mean_with_interval("ni").value < 1
    other = invariance(model, texts, **options, seed=1)
    assert not np.array_equal(whole[0].counts.classes, other[0].counts.classes)


def test_pairs_of_texts_are_translated_separately(pair: Marian) -> None:
    pairs = [(ENGLISH[0], ENGLISH[0])] * 3
    changed = BackTranslation(translator=pair).apply(
        pairs, RowStreams(0, np.arange(3, dtype=np.uint64), np.ones(3, dtype=np.int64))
    )
    assert any(left != right for left, right in changed)


def test_folder_with_pickled_weights_only_raises(pair: Marian, tmp_path: Path) -> None:
    for path in pair.forward.iterdir():
        name = "pytorch_model.bin" if path.suffix == ".safetensors" else path.name
        (tmp_path / name).write_bytes(path.read_bytes())
    with pytest.raises(InputError, match=r"no file named model\.safetensors") as caught:
        BackTranslation(translator=Marian(tmp_path, tmp_path)).apply(["a"], draws_for(["a"]))
    assert "\n" not in str(caught.value)
