"""Find the subgroup of new customers on which a scikit-learn classifier fails, without labels.

The model is trained mostly on rows of the north. New rows come from four regions. Rows of the south
lie closer to the class boundary, which lowers the model's confidence. In the west p(y|x) differs
(concept shift), which the model's outputs cannot show.
"""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.linear_model import LogisticRegression

import oodometer

# Scale of the distance from the class boundary.
REGIONS = {"north": 2.0, "east": 1.5, "south": 0.5, "west": 1.5}


def make_rows(rng, n, shares):
    """Return four features per row, the region, and the class, which depends on the first."""
    region = rng.choice(list(REGIONS), size=n, p=shares)
    features = rng.normal(size=(n, 4))
    features[:, 0] *= [REGIONS[name] for name in region]
    label = (rng.random(n) < 1 / (1 + np.exp(-3 * features[:, 0]))).astype(int)
    is_flipped = (region == "west") & (rng.random(n) < 0.3)
    return features, region, np.where(is_flipped, 1 - label, label)


def write_predictions(path, probs, **columns):
    """Write probabilities to a file that the command line reads."""
    pq.write_table(pa.table({"prob_0": probs[:, 0], "prob_1": probs[:, 1], **columns}), path)


def main():
    rng = np.random.default_rng(0)
    features, _, labels = make_rows(rng, 2000, [0.8, 0.1, 0.1, 0.0])
    model = LogisticRegression().fit(features, labels)
    validation, _, validation_labels = make_rows(rng, 3000, [0.8, 0.1, 0.1, 0.0])
    new, region, truth = make_rows(rng, 4000, [0.25, 0.25, 0.25, 0.25])

    source = oodometer.Predictions.from_probs(
        model.predict_proba(validation), labels=validation_labels
    )
    target = oodometer.Predictions.from_probs(model.predict_proba(new))
    result = oodometer.estimate(source, target, segment_by=region)
    headline = result.headline.estimate
    print(f"all    estimated accuracy {headline.value:.1%} ({headline.method})")
    for segment in result.segments:
        is_segment = region == segment.value
        accuracy = np.mean(model.predict(new[is_segment]) == truth[is_segment])
        print(f"{segment.value:6} estimated {segment.estimate.value:.1%}, true {accuracy:.1%}")
    print("The west is overestimated: p(y|x) differs there. Label a few of its rows.")

    write_predictions(
        "validation.parquet", model.predict_proba(validation), label=validation_labels
    )
    write_predictions("new.parquet", model.predict_proba(new), region=region)
    print("Command: oodometer estimate validation.parquet new.parquet --segment-by region")


if __name__ == "__main__":
    main()
