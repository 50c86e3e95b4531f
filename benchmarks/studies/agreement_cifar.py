"""CIFAR-10 to CIFAR-10.1: accuracy from the agreement of thirty published models.

Disagreement equals error for models that differ only in their seed (GDE; Jiang et al., ICLR 2022).
These models are thirty architectures of which only the predicted classes are known. Agreement may
still lie on the line of accuracies (ALine; Baek et al., NeurIPS 2022); both are tested.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._results import data_folder
from benchmarks.studies._claims import judge
from benchmarks.studies._pages import Page, Scale, points, reliability_of, write
from benchmarks.studies._published_figures import ATC
from oodometer.core.array_types import Floats, Ints
from oodometer.core.predictions import Predictions
from oodometer.estimators.aline import agreements, fit_agreement_line
from oodometer.estimators.gde import GDE
from oodometer.studies.analysis.evaluation_table import EvaluationTable

SETS = ("v4", "v6")
# Published error of GDE, in points.
GDE_ERROR = ATC["CIFAR-10 natural"]["gde"]
METHODS = {
    "source": "accuracy on CIFAR-10",
    "gde": "GDE with the model next in accuracy",
    "gde, all": "GDE with all other models",
    "aline-s": "agreement on the line, ALine-S",
    "aline-d": "agreement on the line, ALine-D",
}


@dataclass(frozen=True, eq=False)
class ModelClasses:
    """Predicted classes of shape (models, rows) on a dataset, and its labels."""

    classes: Ints
    labels: Ints

    @property
    def k(self) -> int:
        return int(max(self.classes.max(), self.labels.max())) + 1

    @property
    def accuracy(self) -> Floats:
        return np.asarray((self.classes == self.labels).mean(axis=1))


def read(path: Path) -> tuple[list[str], ModelClasses, dict[str, ModelClasses]]:
    with np.load(path, allow_pickle=False) as archive:

        def outputs(name: str) -> ModelClasses:
            return ModelClasses(
                archive[f"pred_{name}"].astype(np.int64), archive[f"y_{name}"].astype(np.int64)
            )

        return (
            archive["models"].tolist(),
            outputs("cifar10"),
            {name: outputs(name) for name in SETS},
        )


def gde(outputs: ModelClasses, one: int, others: list[int]) -> float:
    """Return the GDE estimate of one model, the mean over its pairs with others."""
    found = []
    for other in others:
        mine, peer = (
            Predictions.from_classes(outputs.classes[at], k=outputs.k) for at in (one, other)
        )
        found.append(GDE().estimate(mine, mine.with_other_models(peer)).value)
    return float(np.mean(found))


def on_the_line(source: ModelClasses, target: ModelClasses) -> tuple[Floats, Floats]:
    """Return the accuracies by ALine-S and ALine-D."""
    line = fit_agreement_line(
        source.accuracy, agreements(source.classes), agreements(target.classes)
    )
    return line.aline_s, line.aline_d


def predicted(source: ModelClasses, target: ModelClasses) -> dict[str, Floats]:
    """Return each method's estimate of every model's accuracy on the target."""
    models = range(len(source.classes))
    ranked = np.argsort(source.accuracy).tolist()
    beside = {one: ranked[place - 1 if place else 1] for place, one in enumerate(ranked)}
    s, d = on_the_line(source, target)
    return {
        "source": source.accuracy,
        "gde": np.array([gde(target, one, [beside[one]]) for one in models]),
        "gde, all": np.array([gde(target, one, [x for x in models if x != one]) for one in models]),
        "aline-s": s,
        "aline-d": d,
    }


def long_table(names: list[str], source: ModelClasses, targets: dict[str, ModelClasses]) -> Any:
    import pyarrow as pa

    rows = []
    for tested, target in targets.items():
        for method, values in predicted(source, target).items():
            for name, value, truth in zip(names, values, target.accuracy, strict=True):
                rows.append({"model": name, "architecture": name, "trained_on": "cifar-10",
                             "tested_on": f"cifar-10.1-{tested}", "n": len(target.labels),
                             "accuracy": float(truth),
                             "measure": method, "value": float(value)})  # fmt: skip
    return pa.Table.from_pylist(rows)


def figures(rows: Any) -> dict[tuple[str, str], dict[str, float]]:
    """Return mean absolute error, mean error and Kendall's τ by dataset and method."""
    from scipy.stats import kendalltau

    frame = rows.to_pandas()
    return {
        key: {
            "mae": float((part["value"] - part["accuracy"]).abs().mean()),
            "bias": float((part["value"] - part["accuracy"]).mean()),
            "tau": float(kendalltau(part["value"], part["accuracy"]).statistic),
        }
        for key, part in frame.groupby(["tested_on", "measure"], sort=False)
    }


def page(
    found: dict[tuple[str, str], dict[str, float]],
    source: ModelClasses,
    targets: dict[str, ModelClasses],
    table: EvaluationTable,
) -> Page:
    rows = [
        (
            tested,
            METHODS[method],
            points(one["mae"]),
            points(one["bias"], signed=True),
            f"{one['tau']:.2f}",
        )
        for (tested, method), one in found.items()
    ]
    drop = {name: float((source.accuracy - one.accuracy).mean()) for name, one in targets.items()}

    reliability = reliability_of(replace(table, architecture=np.zeros_like(table.architecture)))

    def mean(method: str, what: str) -> float:
        return float(np.mean([one[what] for (_, name), one in found.items() if name == method]))

    return Page(
        name="agreement_cifar",
        title="CIFAR-10 to CIFAR-10.1: agreement of thirty published models",
        done=(
            "Hard predictions of thirty published classifiers on CIFAR-10's test set and on "
            "CIFAR-10.1 (v4, v6), which lose "
            + " and ".join(f"{points(one)} points on {name}" for name, one in drop.items())
            + " on average. The target's labels are used only for the evaluation."
        ),
        tables={
            "Errors in points": (
                ("set", "method", "mean absolute error", "mean error", "τ with accuracy"), rows
            )
        },
        differs=(
            f"ATC's Table 1 has {GDE_ERROR:.2f} for GDE on this shift, with DenseNets and ResNets trained "
            "twice with different seeds. These are thirty architectures of very different accuracy, one "
            "published copy of each, so pairs do not differ only in the seed, as GDE assumes; and only "
            "classes are known, so there is no calibration."
        ),
        scale=Scale.of_table(table, kind="published networks"),
        reliability=reliability,
        results=judge(
            table, "agreement_cifar", reliability=None if reliability is None else reliability.median
        ),
        notes=(
            "Each network is an architecture of its own, so the reliability is that of all networks "
            "together. On the average of both sets, the mean error of GDE is "
            f"{points(mean('gde', 'bias'), signed=True)} points with the model next in accuracy and "
            f"{points(mean('gde, all', 'bias'), signed=True)} with all other models; agreement on the "
            f"line (ALine-S) has a mean absolute error of {points(mean('aline-s', 'mae'))} points, the "
            f"source accuracy of {points(mean('source', 'mae'))}.",
        ),
    )  # fmt: skip


def picture(rows: Any) -> Any:
    import altair as alt

    frame = rows.to_pandas()
    frame["method"] = frame["measure"].map(METHODS)
    line = alt.Chart({"values": [{"x": 0.6, "y": 0.6}, {"x": 1, "y": 1}]}).mark_line(
        color="gray", strokeDash=[4, 4]
    )
    scale = alt.Scale(domain=[0.6, 1])
    dots = alt.Chart(frame).mark_point(filled=True, size=45, opacity=0.8)
    shared = dots.encode(
        x=alt.X("accuracy:Q", scale=scale, axis=alt.Axis(format="%"), title="true accuracy"),
        y=alt.Y("value:Q", scale=scale, axis=alt.Axis(format="%"), title="predicted"),
        color=alt.Color("method:N", title=None, scale=alt.Scale(scheme="tableau10"),
                        legend=alt.Legend(orient="bottom", columns=2, labelLimit=400)),
        shape=alt.Shape("method:N", title=None),
    )  # fmt: skip
    parts = [
        alt.layer(
            line.encode(x=alt.X("x:Q", scale=scale), y=alt.Y("y:Q", scale=scale)),
            shared.transform_filter(alt.datum.tested_on == name),
        ).properties(width=330, height=330, title=name)
        for name in dict.fromkeys(frame["tested_on"])
    ]
    return alt.hconcat(*parts)


def main() -> int:
    folder = data_folder()
    if folder is None:
        print("The research data are not available on this machine; nothing was measured.")
        return 0
    names, source, targets = read(folder / "cifar" / "cifar10_and_10.1_predictions.npz")
    rows = long_table(names, source, targets)
    table = EvaluationTable.read(rows)
    write(page(figures(rows), source, targets, table), rows, picture(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
