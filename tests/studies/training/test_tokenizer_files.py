"""Tokenizers in files: byte-level BPE of GPT-2 against a literal loop and by hand."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from oodometer.core.errors import InputError
from oodometer.studies.training._train import train
from oodometer.studies.training.architectures import get
from oodometer.studies.training.architectures.base import InputShape
from oodometer.studies.training.checkpoint import load_model, load_recipe, save
from oodometer.studies.training.spec import PoolSpec
from oodometer.studies.training.tokenizer import FAIRSEQ_SYMBOLS, HuggingFaceTokenizer, Tokenizer
from oodometer.studies.training.training_data import load_training_set
from oodometer.testing import toy_inputs
from tests.support.encoder_folders import bert_folder
from tests.support.gpt2_files import END, MERGES, byte_symbols, vocabulary, write_gpt2_folder
from tests.support.training_problems import TINY_TEXT, group, recipe, texts

IDS = vocabulary(MERGES)
SMALL = {name: value for name, value in TINY_TEXT.items() if name != "vocabulary"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gpt2_folder(tmp_path_factory.mktemp("gpt2"))


@pytest.fixture(scope="module")
def tokens(folder: Path) -> Tokenizer:
    return Tokenizer.from_files(folder, 64)


def encoded(tokens: Tokenizer, text: str) -> list[int]:
    return [int(one) for one in tokens.encode([text])[0] if one != tokens.pad]


def naive_bpe(word: str) -> list[str]:
    """Merge the pair of the highest priority everywhere in the word until no pair is left."""
    parts = list(word)
    while True:
        pairs = [pair for pair in MERGES if pair in pairwise(parts)]
        if not pairs:
            return parts
        merged, at = [], 0
        while at < len(parts):
            if tuple(parts[at : at + 2]) == pairs[0]:
                merged.append("".join(pairs[0]))
                at += 2
            else:
                merged.append(parts[at])
                at += 1
        parts = merged


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # "t" and "h" are never merged, and a leading space belongs to its word.
        ("the the", ["t", "he", "Ġthe"]),
        ("low lows", ["low", "Ġ", "low", "s"]),
        # "ab" comes before "aa".
        ("aab aaa", ["a", "ab", "Ġ", "aa", "a"]),
        # Two bytes of UTF-8, C3 and A9; the line feed is byte 0A.
        ("é\n", ["Ã", "©", "Ċ"]),
        # Special symbols inside a text are text.
        ("<pad>", ["<", "p", "a", "d", ">"]),
    ],
)
def test_merges_are_applied_by_priority(tokens: Tokenizer, text: str, expected: list[str]) -> None:
    assert encoded(tokens, text) == [IDS[token] for token in expected]


@given(st.lists(st.text("abthelow", min_size=1, max_size=9), max_size=4))
def test_words_match_the_literal_loop(tokens: Tokenizer, words: list[str]) -> None:
    spaced = ["Ġ" * (at > 0) + word for at, word in enumerate(words)]
    expected = [IDS[part] for word in spaced for part in naive_bpe(word)]
    assert encoded(tokens, " ".join(words)) == expected


@given(st.text(st.characters(codec="utf-8"), max_size=15))
def test_any_text_is_decoded_exactly(tokens: Tokenizer, text: str) -> None:
    assert tokens.backend.decode(encoded(tokens, text)) == text


def test_bytes_have_the_symbols_of_gpt2() -> None:
    symbols = byte_symbols()
    assert len(set(symbols)) == 256
    # The first and last ids of bytes in GPT-2's vocab.json.
    assert (symbols[0], symbols[220], symbols[198], symbols[255]) == ("!", "Ġ", "Ċ", "Ń")


def test_symbols_of_fairseq_follow_the_vocabulary(tokens: Tokenizer) -> None:
    known = tokens.backend.get_vocab()
    assert [known[symbol] for symbol in FAIRSEQ_SYMBOLS] == list(range(len(IDS), len(IDS) + 6))
    assert {token: known[token] for token in IDS} == IDS
    assert tokens.pad == known["<pad>"]


def test_vocabulary_of_gpt2_has_50263_types(tmp_path: Path) -> None:
    symbols = byte_symbols()
    merges = [(first, second) for first in symbols for second in symbols][:50_000]
    assert len(vocabulary(merges)) == 50_257
    assert Tokenizer.from_files(write_gpt2_folder(tmp_path, merges), 8).size == 50_263


def test_names_of_openai_are_accepted(folder: Path, tmp_path: Path) -> None:
    other = write_gpt2_folder(tmp_path, names=("encoder.json", "vocab.bpe"))
    assert (
        Tokenizer.from_files(other, 9).to_bytes() == Tokenizer.from_files(folder, 9).to_bytes()
    )  # fmt: skip


def test_tokenizer_json_gives_the_same_ids(tokens: Tokenizer, tmp_path: Path) -> None:
    content = json.loads(tokens.to_bytes())
    content |= {"truncation": None, "padding": None}
    content["model"]["vocab"] = IDS
    special = {"id": IDS[END], "content": END, "single_word": False, "lstrip": False}
    content["added_tokens"] = [{**special, "rstrip": False, "normalized": False, "special": True}]
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    for path in (tmp_path, tmp_path / "tokenizer.json"):
        found = Tokenizer.from_files(path, 64)
        assert (found.size, found.pad) == (tokens.size, tokens.pad)
        rows = ["the low aab", "<pad> é", ""]
        assert np.array_equal(found.encode(rows), tokens.encode(rows))
        # The file declares the end of a text as a special token.
        assert encoded(found, END) == [IDS[END]]
        assert len(encoded(tokens, END)) == len(END)


def test_padding_token_of_a_file_is_used(tmp_path: Path) -> None:
    own, transformers = (
        Tokenizer.from_files(bert_folder(tmp_path), 12),
        HuggingFaceTokenizer(tmp_path, 12),
    )
    rows = toy_inputs("text", n=5)
    assert (own.size, own.pad) == (transformers.size, transformers.pad)
    assert np.array_equal(own.encode(rows), transformers.encode(rows))


def test_outputs_do_not_depend_on_padding(tokens: Tokenizer) -> None:
    for kind, rows in (("text", ["the low", "a"]), ("pairs", [("the low", "a"), ("b", "lo")])):
        shape = InputShape(kind, 2, (64,), vocabulary=tokens.size, pad=tokens.pad)  # type: ignore[arg-type]
        module = get("text-cnn", SMALL).build(shape).eval()
        whole = tokens.encode(rows)
        assert tokens.trim_padding(whole).shape[-1] < 64
        short = module(torch.from_numpy(tokens.trim_padding(whole)))
        assert torch.allclose(module(torch.from_numpy(whole)), short, atol=1e-6)
        assert not module.embedding.weight[tokens.pad].any()


def test_model_is_loaded_without_the_files(tmp_path: Path) -> None:
    folder = write_gpt2_folder(tmp_path / "gpt2")
    words, labels = texts()
    one = recipe("text-cnn", settings={**SMALL, "tokenizer": str(folder)}, stop_at=None)
    trained = train(one, group(words, labels))
    assert (trained.shape.vocabulary, trained.shape.pad) == (len(IDS) + 6, len(IDS) + 1)
    saved = save(tmp_path / "pool", trained)
    shutil.rmtree(folder)
    moved = shutil.move(saved, tmp_path / saved.name)
    assert load_recipe(Path(moved)) == one
    model = load_model(moved)
    assert (model.classify(words).classes == labels).mean() == trained.facts["accuracy"]


def test_id_depends_on_the_content_of_the_files(tmp_path: Path) -> None:
    first, second = (
        write_gpt2_folder(tmp_path / name, merges)
        for name, merges in (("first", MERGES), ("second", MERGES[::-1]))
    )
    one = recipe("text-cnn", settings={"tokenizer": str(first)})
    pool = {"group": "amazon", "domains": ["books"], "architecture": "text-cnn"}
    fixed = {"settings": {"tokenizer": str(first)}}
    before = PoolSpec.open({**pool, "fixed": fixed}).recipes()[0]
    assert before.settings["tokenizer_hash"] == one.settings["tokenizer_hash"]
    for file in second.iterdir():
        shutil.copy(file, first / file.name)
    after = PoolSpec.open({**pool, "fixed": fixed}).recipes()[0]
    assert before.id != after.id
    assert recipe("text-cnn", settings={"tokenizer": str(first)}).id != one.id
    # A configuration with the hash of other files is not trained.
    with pytest.raises(InputError, match=r"The tokenizer in .*first' has changed: tokenizer_hash"):
        load_training_set(one, group(*texts()))


def test_ids_of_pools_without_a_tokenizer_never_change() -> None:
    pool = {"group": "amazon", "domains": ["books"]}
    cases = {
        "10d6fb367dc46b49": ("text-cnn", {"width": 128}),
        "5f3d1a9b506d8616": ("encoder", {"folder": "roberta-base"}),
    }
    for expected, (name, settings) in cases.items():
        table = {**pool, "architecture": name, "fixed": {"settings": settings}}
        assert [one.id for one in PoolSpec.open(table).recipes()] == [expected]


def test_missing_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "half").mkdir()
    shutil.copy(write_gpt2_folder(tmp_path / "whole") / "vocab.json", tmp_path / "half")
    (tmp_path / "pool.toml").write_text(
        'group = "amazon"\ndomains = ["books"]\narchitecture = "text-cnn"\n'
        f'fixed.settings.tokenizer = "{tmp_path / "half"}"\n'
    )
    with pytest.raises(InputError) as caught:
        PoolSpec.open(tmp_path / "pool.toml")
    assert str(caught.value) == (
        "pool.toml: tokenizer must be a folder with tokenizer.json, with vocab.json and merges.txt, "
        "or with encoder.json and vocab.bpe, or the path of a tokenizer.json; got "
        f"'{tmp_path / 'half'}', which has only vocab.json."
    )
    for path, reason in ((tmp_path, "has none of these files"), ("nowhere", "does not exist")):
        with pytest.raises(InputError, match=f"tokenizer must be .*, which {reason}"):
            Tokenizer.from_files(path, 8)


def broken(folder: Path, name: str, content: str) -> Path:
    (write_gpt2_folder(folder) / name).write_text(content)
    return folder


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("merges.txt", "#version: 0.2\na b\nabc\n", r"Line 3 of .*merges.txt' must be two tokens"),
        ("merges.txt", "q z\n", r"Cannot read the tokenizer in "),
        ("vocab.json", "[1]", r"vocab.json' must be a JSON object"),
        ("vocab.json", "{", r"Cannot read the tokenizer in "),
        ("vocab.json", '{"a": 0}', r"each of the 256 bytes.* 255 are missing"),
        ("tokenizer.json", "{}", r"Cannot read the tokenizer in "),
    ],
)
def test_broken_files_are_named(tmp_path: Path, name: str, content: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        Tokenizer.from_files(broken(tmp_path / "folder", name, content), 8)
    assert "\n" not in str(caught.value)


def test_settings_without_effect_are_rejected(folder: Path) -> None:
    with pytest.raises(InputError, match=r"vocabulary = 300 and tokenizer = .*Remove one"):
        get("text-cnn", {"tokenizer": str(folder), "vocabulary": 300})
    with pytest.raises(InputError, match=r"tokenizer_hash .* needs tokenizer"):
        get("text-cnn", {"tokenizer_hash": "00"})


def test_added_hash_is_kept(folder: Path) -> None:
    one = recipe("text-cnn", settings={"tokenizer": str(folder)})
    assert replace(one, seed=1).settings == one.settings
    assert len(one.settings["tokenizer_hash"]) == 32
