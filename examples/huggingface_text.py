"""Estimate the accuracy of a text classifier in a local Hugging Face folder on another domain.

The folder is created here, with a tiny BERT trained on a few made-up reviews; nothing is
downloaded. Your own folder needs a model and its tokenizer, as save_pretrained writes them.
"""

import random
from pathlib import Path

import torch
import transformers

import oodometer

POSITIVE = ["fine", "great", "lovely", "superb", "charming"]
NEGATIVE = ["dull", "poor", "awful", "boring", "weak"]
COMMON = ["the", "a", "it", "is", "was", "very", "this", "we", "found", "they", "all", "so"]
BOOKS = ["book", "plot", "story", "page", "author"]
SONGS = ["song", "tune", "voice", "drum", "album"]
SPECIAL_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def make_reviews(nouns, n, seed, mixed):
    """Return texts and labels (1: positive); a share `mixed` has words of both sentiments."""
    rng = random.Random(seed)
    texts, labels = [], []
    for _ in range(n):
        label = rng.random() < 0.5
        words = rng.choices(POSITIVE if label else NEGATIVE, k=2)
        n_opposite = rng.choice((1, 2)) if rng.random() < mixed else 0
        words += rng.choices(NEGATIVE if label else POSITIVE, k=n_opposite)
        words += rng.choices(COMMON, k=5) + rng.choices(nouns, k=2)
        rng.shuffle(words)
        texts.append(" ".join(words))
        labels.append(int(label))
    return texts, labels


def train_and_save(folder, texts, labels, steps=40):
    """Train a BERT with one layer on the texts; save the model and its tokenizer."""
    torch.manual_seed(0)
    words = [*SPECIAL_TOKENS, *POSITIVE, *NEGATIVE, *COMMON, *BOOKS, *SONGS]
    tokenizer = transformers.BertTokenizer(vocab={word: i for i, word in enumerate(words)})
    config = transformers.BertConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=24, id2label={0: "negative", 1: "positive"},
    )  # fmt: skip
    model = transformers.BertForSequenceClassification(config)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    tokens = tokenizer(texts, padding=True, return_tensors="pt")
    for _ in range(steps):
        optimizer.zero_grad()
        model(**tokens, labels=torch.tensor(labels)).loss.backward()
        optimizer.step()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def main():
    folder = Path("tiny-bert")
    train_and_save(folder, *make_reviews(BOOKS, 400, seed=0, mixed=0.3))
    model = oodometer.as_model(folder)

    texts, labels = make_reviews(BOOKS, 400, seed=1, mixed=0.3)
    source = oodometer.Predictions.from_logits(model.classify(texts).scores, labels=labels)
    songs, truth = make_reviews(SONGS, 400, seed=2, mixed=0.8)
    target = model.classify(songs)
    estimate = oodometer.estimate(source, target).headline.estimate
    print(f"books: accuracy {source.correct.mean():.1%}, with labels")
    print(f"songs: accuracy {estimate.value:.1%}, estimated without labels ({estimate.method})")
    print(f"songs: accuracy {(target.classes == truth).mean():.1%}, true")
    print(oodometer.invariance(model, songs[:100], transform="random_replace", draws=5))


if __name__ == "__main__":
    main()
