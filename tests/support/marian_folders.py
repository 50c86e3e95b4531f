"""Two tiny Marian models with random weights, in the format of the published OPUS-MT folders."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path

ENGLISH = (
    "the cat runs .", "a dog sleeps well .", "the old house is small .",
    "a good book about dogs and cats .",
)  # fmt: skip
GERMAN = (
    "die Katze läuft .", "ein Hund schläft gut .", "das alte Haus ist klein .",
    "ein gutes Buch über Hunde und Katzen .",
)  # fmt: skip
MAX_PIECES = 60


def write_marian_folders(folder: Path) -> tuple[Path, Path]:
    """Write models from English to German and back; return their folders."""
    forward = _write_model(folder / "en-de", {"en": ENGLISH, "de": GERMAN}, seed=0)
    backward = _write_model(folder / "de-en", {"de": GERMAN, "en": ENGLISH}, seed=1)
    return forward, backward


def _write_model(folder: Path, languages: dict[str, Sequence[str]], seed: int) -> Path:
    """Write the files of a published model: config, weights, two SentencePiece models, vocabulary."""
    import torch
    import transformers

    folder.mkdir(parents=True)
    source, target = languages
    pieces = _train_pieces(folder / "source.spm", languages[source])
    pieces += _train_pieces(folder / "target.spm", languages[target])
    vocabulary = {"</s>": 0, "<unk>": 1}
    for piece in pieces:
        vocabulary.setdefault(piece, len(vocabulary))
    pad = vocabulary.setdefault("<pad>", len(vocabulary))
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"target_lang": target, "source_lang": source})
    )
    torch.manual_seed(seed)
    config = transformers.MarianConfig(
        vocab_size=len(vocabulary), d_model=16, encoder_layers=1, decoder_layers=1,
        encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=32,
        decoder_ffn_dim=32, max_position_embeddings=512, activation_function="swish",
        scale_embedding=True, init_std=0.25, pad_token_id=pad, eos_token_id=0,
        decoder_start_token_id=pad, forced_eos_token_id=0,
    )  # fmt: skip
    network = transformers.MarianMTModel(config)
    # Published models have this bias. It makes the end of a sentence likely enough to occur.
    network.final_logits_bias[0, 0] = 1.5
    network.save_pretrained(folder)
    _add_published_keys(folder / "config.json", pad)
    (folder / "generation_config.json").unlink(missing_ok=True)
    return folder


def _train_pieces(path: Path, sentences: Sequence[str]) -> list[str]:
    """Train and save a SentencePiece model; return its pieces without the special ones."""
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(list(sentences) * 5), model_writer=model, vocab_size=MAX_PIECES,
        hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    path.write_bytes(model.getvalue())
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    return [
        processor.id_to_piece(number)
        for number in range(processor.get_piece_size())
        if not processor.is_control(number) and not processor.is_unknown(number)
    ]


def _add_published_keys(path: Path, pad: int) -> None:
    """Add keys of published configurations that newer versions of transformers do not write."""
    config = json.loads(path.read_text())
    published = {
        "add_bias_logits": False, "bad_words_ids": [[pad]], "bos_token_id": 0, "max_length": 512,
        "normalize_before": False, "normalize_embedding": False, "num_beams": 6,
        "static_position_embeddings": True,
    }  # fmt: skip
    path.write_text(json.dumps(config | published))
