"""A text classifier in a local Hugging Face folder, on reviews of another kind of thing.

The folder is made here, with a tiny BERT that learns from a few made-up reviews; nothing is
downloaded. A folder of your own needs a model and its tokenizer, as save_pretrained writes them.
"""

import random
from pathlib import Path

import torch
import transformers

import oodometer

GOOD, BAD = (
    ["fine", "great", "lovely", "superb", "charming"],
    ["dull", "poor", "awful", "boring", "weak"],
)
COMMON = ["the", "a", "it", "is", "was", "very", "this", "we", "found", "they", "all", "so"]
BOOKS, SONGS = (
    ["book", "plot", "story", "page", "author"],
    ["song", "tune", "voice", "drum", "album"],
)
MARKS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def reviews(things, n, seed, mixed):
    """Sentences and whether they praise; a share `mixed` of them says both, as people do."""
    draw = random.Random(seed)
    texts, labels = [], []
    for _ in range(n):
        label = draw.random() < 0.5
        said = draw.choices(GOOD if label else BAD, k=2)
        contrary = draw.choice((1, 2)) if draw.random() < mixed else 0
        said += draw.choices(BAD if label else GOOD, k=contrary)
        words = said + draw.choices(COMMON, k=5) + draw.choices(things, k=2)
        draw.shuffle(words)
        texts.append(" ".join(words))
        labels.append(int(label))
    return texts, labels


def written(folder, texts, labels, steps=40):
    """A BERT of one layer that has learned the texts, and its tokenizer, in a folder."""
    torch.manual_seed(0)
    words = [*MARKS, *GOOD, *BAD, *COMMON, *BOOKS, *SONGS]
    tokenizer = transformers.BertTokenizer(vocab={word: i for i, word in enumerate(words)})
    config = transformers.BertConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=24, id2label={0: "blame", 1: "praise"},
    )  # fmt: skip
    model = transformers.BertForSequenceClassification(config)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    tokens, truth = tokenizer(texts, padding=True, return_tensors="pt"), torch.tensor(labels)
    for _ in range(steps):
        optimizer.zero_grad()
        model(**tokens, labels=truth).loss.backward()
        optimizer.step()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def main():
    folder = Path("tiny-bert")
    written(folder, *reviews(BOOKS, 400, seed=0, mixed=0.3))
    model = oodometer.as_model(folder)

    texts, labels = reviews(BOOKS, 400, seed=1, mixed=0.3)
    source = oodometer.Predictions.from_logits(model.classify(texts).scores, labels=labels)
    songs, truth = reviews(SONGS, 400, seed=2, mixed=0.8)
    said = model.classify(songs)
    found = oodometer.estimate(source, said).headline.estimate
    print(f"books: {source.correct.mean():.1%} right, by their labels")
    print(f"songs: {found.value:.1%} right, estimated without labels ({found.method})")
    print(f"songs: {(said.classes == truth).mean():.1%} right in truth")
    print(oodometer.invariance(model, songs[:100], transform="random_replace", draws=5))


if __name__ == "__main__":
    main()
