"""Texts to token ids and back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import transformers
from hypothesis import given
from hypothesis import strategies as st

from oodometer.core.array_types import Ints
from oodometer.core.errors import InputError
from oodometer.studies.training.tokenizer import (
    ENCODE_BATCH_ROWS,
    PAD_NAME,
    HuggingFaceTokenizer,
    Tokenizer,
)
from oodometer.testing import toy_inputs
from tests.support import encoder_folders

TEXTS = toy_inputs("text", n=40)
PAIRS = list(zip(TEXTS, reversed(TEXTS), strict=True))
LEARNED = Tokenizer.learn(TEXTS, size=300, length=64)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return encoder_folders.bert_folder(tmp_path_factory.mktemp("bert"))


def text_of(tokens: Tokenizer, numbers: Ints) -> str:
    return str(tokens.backend.decode([int(one) for one in numbers if one != tokens.pad]))


@given(st.text(st.characters(codec="utf-8"), max_size=15))
def test_any_text_is_decoded_exactly(text: str) -> None:
    # A character has at most four bytes, so 15 characters fit into 64 tokens.
    assert text_of(LEARNED, LEARNED.encode([text])[0]) == text


def test_frequent_words_become_tokens() -> None:
    spelled, learned = (Tokenizer.learn(TEXTS, size=size, length=512) for size in (257, 300))
    assert (spelled.size, learned.size) == (257, 300)
    used = [(tokens.encode(TEXTS) != 0).sum() for tokens in (spelled, learned)]
    assert used[0] == sum(len(text.encode()) for text in TEXTS)
    assert used[1] < used[0]


def test_texts_are_truncated_and_padded() -> None:
    short = Tokenizer.learn(TEXTS, size=300, length=5)
    assert short.length == 5
    cut, whole = short.encode([TEXTS[0], "", "a"]), LEARNED.encode([TEXTS[0], "", "a"])
    assert np.array_equal(cut[0], whole[0, :5])
    assert (cut[0] > 0).all()
    assert not cut[1].any()
    assert cut[2].tolist() == [whole[2, 0], 0, 0, 0, 0]
    assert not whole[2, 1:].any()


def test_texts_of_a_pair_are_encoded_separately() -> None:
    found = LEARNED.encode(PAIRS)
    assert found.shape == (len(PAIRS), 2, 64)
    assert np.array_equal(found[:, 0], LEARNED.encode(TEXTS))
    assert np.array_equal(found[:, 1], LEARNED.encode(TEXTS[::-1]))


def test_both_texts_of_pairs_are_learned() -> None:
    assert (
        Tokenizer.learn(PAIRS, 300, 8).to_bytes() == Tokenizer.learn(TEXTS * 2, 300, 8).to_bytes()
    )


@pytest.mark.parametrize("rows", [TEXTS, PAIRS])
def test_bytes_round_trip(rows: list[str]) -> None:
    back = Tokenizer.from_bytes(LEARNED.to_bytes())
    assert back.to_bytes() == LEARNED.to_bytes()
    assert (back.size, back.length, back.pad) == (300, 64, 0)
    assert np.array_equal(back.encode(rows), LEARNED.encode(rows))


def test_bytes_are_deterministic() -> None:
    assert Tokenizer.learn(iter(TEXTS), 300, 64).to_bytes() == LEARNED.to_bytes()


def test_name_of_the_padding_token_is_ordinary_text() -> None:
    tokens = Tokenizer.learn([PAD_NAME] * 50, 300, 64)
    for kept in (tokens, Tokenizer.from_bytes(tokens.to_bytes())):
        numbers = kept.encode([f"a {PAD_NAME} b"])[0]
        assert text_of(kept, numbers) == f"a {PAD_NAME} b"
    assert tokens.backend.get_vocab()[PAD_NAME] == 0


def test_lone_surrogate_becomes_a_question_mark() -> None:
    assert text_of(LEARNED, LEARNED.encode(["a\ud800b"])[0]) == "a?b"


def test_many_rows_are_encoded_in_blocks() -> None:
    rows = (TEXTS * (ENCODE_BATCH_ROWS // len(TEXTS) + 1))[: ENCODE_BATCH_ROWS + 3]
    found = LEARNED.encode(rows)
    assert len(found) == ENCODE_BATCH_ROWS + 3
    assert np.array_equal(found[-5:], LEARNED.encode(rows[-5:]))


def test_no_rows_give_an_empty_array() -> None:
    assert LEARNED.encode([]).shape == (0, 64)


@given(st.lists(st.text(max_size=20), min_size=1, max_size=4))
def test_trimming_removes_only_padding(texts: list[str]) -> None:
    for rows in (texts, [(text, texts[0]) for text in texts]):
        numbers = LEARNED.encode(rows)
        fewer = LEARNED.trim_padding(numbers)
        length = fewer.shape[-1]
        assert np.array_equal(fewer, numbers[..., :length])
        assert not numbers[..., length:].any()
        assert length == 1 or fewer[..., -1].any()


def test_too_small_vocabulary_is_rejected() -> None:
    with pytest.raises(InputError, match=r"vocabulary must be at least 257.*got 256"):
        Tokenizer.learn(TEXTS, size=256, length=8)


@pytest.mark.parametrize("data", [b"", b"{}", b"\xff", LEARNED.to_bytes()[:-9]])
def test_invalid_bytes_are_rejected(data: bytes) -> None:
    with pytest.raises(InputError, match="are not a tokenizer"):
        Tokenizer.from_bytes(data)


def test_folder_tokenizer_matches_transformers(folder: Path) -> None:
    tokens, reader = (
        HuggingFaceTokenizer(folder, 12),
        transformers.AutoTokenizer.from_pretrained(folder),
    )
    shown = {"padding": "max_length", "truncation": True, "max_length": 12}
    expected = reader(TEXTS, **shown)["input_ids"]
    assert np.array_equal(tokens.encode(TEXTS), expected)
    both = reader([a for a, _ in PAIRS], [b for _, b in PAIRS], **shown)
    found = tokens.encode(PAIRS)
    assert np.array_equal(found[:, 0], both["input_ids"])
    assert np.array_equal(found[:, 1], both["token_type_ids"])
    assert found[:, 1].any()
    assert (tokens.size, tokens.length, tokens.pad) == (
        len(encoder_folders.TOKENS),
        12,
        encoder_folders.PAD,
    )


def test_folder_tokenizer_reads_the_folder_once(folder: Path) -> None:
    tokens = HuggingFaceTokenizer(str(folder), 12)
    back = HuggingFaceTokenizer.from_bytes(tokens.to_bytes())
    assert isinstance(back, HuggingFaceTokenizer)
    assert np.array_equal(back.encode(PAIRS), tokens.encode(PAIRS))
    assert (back.size, back.length, back.pad) == (tokens.size, 12, encoder_folders.PAD)


def test_folder_tokenizer_trims_its_own_padding_token(folder: Path) -> None:
    tokens = HuggingFaceTokenizer(folder, 24)
    assert tokens.trim_padding(tokens.encode(["good", "good good"])).shape == (2, 4)
    assert tokens.trim_padding(tokens.encode([("good", "good good")])).shape == (1, 2, 6)


def test_folder_without_tokenizer_is_rejected(tmp_path: Path) -> None:
    for missing in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(InputError, match=r"has no tokenizer.*save_pretrained"):
            HuggingFaceTokenizer(missing, 12)


def test_too_small_length_is_rejected(folder: Path) -> None:
    with pytest.raises(InputError, match=r"length must be at least 4.*got 3"):
        HuggingFaceTokenizer(folder, 3)


def test_tokenizer_without_padding_is_rejected(tmp_path: Path) -> None:
    vocabulary = {"a": 0, "b": 1, "<|endoftext|>": 2}
    transformers.GPT2Tokenizer(vocab=vocabulary, merges=[]).save_pretrained(tmp_path)
    with pytest.raises(InputError, match="has no padding token"):
        HuggingFaceTokenizer(tmp_path, 8)
