"""Which subgroup of new customers does a scikit-learn classifier fail on? No label of theirs is read.

A model learned mostly in the north. New rows come from four regions. Those of the south lie nearer to
the border between the classes, which the model's confidence tells. In the west the same numbers often
have the other class, which nothing in the model's outputs can tell.
"""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.linear_model import LogisticRegression

import oodometer

# How far rows lie from the border between the classes.
REGIONS = {"north": 2.0, "east": 1.5, "south": 0.5, "west": 1.5}


def people(rng, n, shares):
    """Four numbers a row, the region, and the class, which hangs on the first number alone."""
    region = rng.choice(list(REGIONS), size=n, p=shares)
    numbers = rng.normal(size=(n, 4))
    numbers[:, 0] *= [REGIONS[name] for name in region]
    label = (rng.random(n) < 1 / (1 + np.exp(-3 * numbers[:, 0]))).astype(int)
    other = (region == "west") & (rng.random(n) < 0.3)
    return numbers, region, np.where(other, 1 - label, label)


def file_of(name, said, **columns):
    """What the model says, as a file that the command line reads."""
    pq.write_table(pa.table({"prob_0": said[:, 0], "prob_1": said[:, 1], **columns}), name)


def main():
    rng = np.random.default_rng(0)
    rows, _, labels = people(rng, 2000, [0.8, 0.1, 0.1, 0.0])
    model = LogisticRegression().fit(rows, labels)
    known, _, truth_known = people(rng, 3000, [0.8, 0.1, 0.1, 0.0])
    new, region, truth = people(rng, 4000, [0.25, 0.25, 0.25, 0.25])

    source = oodometer.Predictions.from_probs(model.predict_proba(known), labels=truth_known)
    target = oodometer.Predictions.from_probs(model.predict_proba(new))
    found = oodometer.estimate(source, target, segment_by=region)
    print(
        f"On all new rows about {found.headline.estimate.value:.1%}, says {found.headline.estimate.method}."
    )
    for part in found.segments:
        right = model.predict(new[region == part.value]) == truth[region == part.value]
        print(f"{part.value:6} estimated {part.estimate.value:.1%}, in truth {right.mean():.1%}")
    print(
        "The west is overrated: the same numbers have other classes there. Label a few rows of it."
    )

    file_of("validation.parquet", model.predict_proba(known), label=truth_known)
    file_of("new.parquet", model.predict_proba(new), region=region)
    print("By command: oodometer estimate validation.parquet new.parquet --segment-by region")


if __name__ == "__main__":
    main()
