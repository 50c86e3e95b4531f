"""Divergences over several source domains, with the source error, and their names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.protocols import Measure
from oodometer.core.results import Score
from oodometer.measures import _domain_classifiers, h_divergence, hdh_divergence
from oodometer.measures.combined import DIVERGENCES, MultiSource, PlusSourceError
from oodometer.measures.entropy import SourceError
from oodometer.measures.h_divergence import HDivergence
from oodometer.measures.hdh_divergence import HDeltaHDivergence
from oodometer.measures.mmd import MmdRandomFeatures
from oodometer.measures.subject import Subject, measure_one
from oodometer.models.model_view import ModelView, ViewSource
from tests.support.feature_subjects import normal, outputs, shuffled, subject, with_classes

STEMS = ("h", "hplus", "hdh", "hplusdhplus")
DOMAINS = np.array(["photo", "sketch", "cartoon"])[np.arange(90) % 3]


def three_domains(shift: float = 0.5) -> Subject:
    """Return a subject with three different source domains of 30 rows each."""
    source = normal(90, 4, seed=0) + 0.4 * (np.arange(90) % 3)[:, None]
    return with_classes(source, normal(50, 4, seed=1, shift=shift), 3, DOMAINS)


def test_all_32_divergences_have_the_names_of_the_paper() -> None:
    names = [
        f"{stem}-divergence{train}{three_domains}{error}"
        for stem in STEMS
        for train in ("", "-train")
        for three_domains in ("", "-ms")
        for error in ("", "+source-error")
    ]
    assert len(names) == 32
    assert [member.name for member in DIVERGENCES] == names
    assert len({member.label for member in DIVERGENCES}) == 32
    labels = {member.name: member.label for member in DIVERGENCES}
    assert labels["h-divergence"] == "H-divergence"
    assert labels["hplus-divergence-ms"] == "H⁺-divergence MS"
    assert labels["hdh-divergence+source-error"] == "HΔH-divergence + Source-Error"
    full = "hplusdhplus-divergence-train-ms+source-error"
    assert labels[full] == "H⁺ΔH⁺-divergence (train) MS + Source-Error"


def test_divergences_declare_their_needs() -> None:
    for member in DIVERGENCES:
        assert isinstance(member, Measure)
        assert hash(member) == hash(member)
        assert "NeurIPS" in member.paper
        assert "features" in member.needs
        assert ("source domains" in member.needs) == ("-ms" in member.name)
        assert ("labels" in member.needs) == member.name.endswith("+source-error")


@pytest.mark.parametrize("base", [HDivergence(), HDeltaHDivergence(half="train", steps=60)])
def test_multi_source_is_the_mean_over_domains(base: Measure) -> None:
    toy = three_domains()
    score = measure_one(MultiSource(base), toy)
    by_domain = {}
    for name in ("cartoon", "photo", "sketch"):
        rows = np.array([domain == name for domain in DOMAINS])
        side = ModelView(ViewSource("source", features=toy.source.features[rows]))
        by_domain[f"domain_{name}"] = measure_one(base, Subject(side, toy.target)).value
    assert len(set(by_domain.values())) > 1
    assert score.value == sum(by_domain.values()) / 3
    assert dict(score.facts) == by_domain


@pytest.mark.parametrize("base", [HDivergence(), MultiSource(HDeltaHDivergence(steps=30))])
def test_source_error_is_added(base: Measure) -> None:
    toy = three_domains()
    score, base_score, error = (
        measure_one(m, toy) for m in (PlusSourceError(base), base, SourceError())
    )
    assert 0 < error.value < 1
    assert score.value == base_score.value + error.value
    assert score.notes == base_score.notes
    assert dict(score.facts) == {**base_score.facts, "source_error": error.value}


def test_assumptions_combine_those_of_the_parts() -> None:
    base = HDivergence()
    three_domains, with_error = MultiSource(base), PlusSourceError(base)
    assert three_domains.assumes == f"{base.assumes}; each source domain counts equally"
    assert with_error.assumes == f"{base.assumes}; {SourceError.assumes}"


class BareNumber(HDivergence):
    """Divergence that returns a bare number."""

    def measure(self, subject: Subject) -> Any:
        return float(subject.reference.n)


def test_custom_measures_may_return_bare_numbers() -> None:
    toy = three_domains()
    assert measure_one(MultiSource(BareNumber()), toy).value == 30
    error = measure_one(SourceError(), toy).value
    assert measure_one(PlusSourceError(BareNumber()), toy).value == 90 + error


def test_sum_has_no_interval() -> None:
    assert measure_one(MmdRandomFeatures(count=9), three_domains()).low is not None
    score = measure_one(PlusSourceError(MmdRandomFeatures(count=9)), three_domains())
    assert (score.low, score.high) == (None, None)


def test_error_is_that_of_the_source_even_with_training_data() -> None:
    source = ModelView(
        ViewSource("source", outputs=outputs(40, 3, seed=0), features=normal(40, 4, seed=5))
    )
    target = ModelView(
        ViewSource("target", outputs=outputs(30, 3, seed=1), features=normal(30, 4, seed=1))
    )
    training = three_domains().source
    toy = Subject(source, target, training)
    score = measure_one(PlusSourceError(MultiSource(HDivergence())), toy)
    assert score.facts["source_error"] == measure_one(SourceError(), toy).value
    separate = measure_one(MultiSource(HDivergence()), Subject(training, target))
    assert score.value == separate.value + score.facts["source_error"]


def test_all_32_share_one_fit_per_head_and_domain(monkeypatch: pytest.MonkeyPatch) -> None:
    fits: list[str] = []

    def counted_fit(head: Any, *args: Any, **named: Any) -> _domain_classifiers.FittedHead:
        fits.append(head)
        return _domain_classifiers.fit_head(head, *args, **named)

    def short_training(*args: Any, **named: Any) -> tuple[int, bool]:
        fits.append("pair")
        return train_heads(*args, **{**named, "max_steps": 5})

    train_heads = hdh_divergence.train_heads
    monkeypatch.setattr(h_divergence, "fit_head", counted_fit)
    monkeypatch.setattr(hdh_divergence, "train_heads", short_training)
    monkeypatch.setitem(_domain_classifiers.MAX_FIT_STEPS, "larger", 5)
    toy = three_domains()
    for member in DIVERGENCES:
        assert isinstance(measure_one(member, toy), Score)
    # All domains together and three separately; two heads each.
    assert [fits.count(kind) for kind in ("linear", "larger", "pair")] == [4, 4, 8]


def test_row_order_does_not_matter() -> None:
    toy = three_domains()
    measure = PlusSourceError(MultiSource(HDivergence()))
    first = measure_one(measure, toy)
    score = measure_one(measure, shuffled(toy, 0))
    assert score.value == pytest.approx(first.value, abs=1e-12)
    assert score.facts == pytest.approx(first.facts)


def test_notes_name_the_domain() -> None:
    score = measure_one(MultiSource(HDivergence(rows=20)), three_domains())
    cut = "only 20 of 30 rows per side were used, drawn at random"
    assert score.notes == tuple(f"{name}: {cut}" for name in ("cartoon", "photo", "sketch"))


def test_errors_name_the_domain() -> None:
    domains = np.array(["big"] * 20 + ["tiny"] * 3)
    toy = subject(normal(23, 2, seed=0), normal(30, 2, seed=1), domains=domains)
    assert measure_one(HDivergence(), toy).value > 0
    message = "source domain 'tiny': it needs at least 4 rows per side .* and there are 3"
    with pytest.raises(NotApplicable, match=message):
        measure_one(MultiSource(HDivergence()), toy)


def test_fewer_than_two_domains_are_not_applicable() -> None:
    source, target = normal(20, 2, seed=0), normal(20, 2, seed=1)
    toy = subject(source, target, domains=np.array(["photo"] * 20))
    with pytest.raises(
        NotApplicable, match="it is a mean over source domains, and only one is known"
    ):
        measure_one(MultiSource(HDivergence()), toy)
    for run in (measure_one, lambda measure, subject: measure.measure(subject)):
        with pytest.raises(NotApplicable, match="it needs source domains"):
            run(MultiSource(HDivergence()), subject(source, target))


def test_source_error_needs_labels() -> None:
    with pytest.raises(NotApplicable, match="it needs outputs"):
        measure_one(
            PlusSourceError(HDivergence()), subject(normal(9, 2, seed=0), normal(9, 2, seed=1))
        )


def test_unequal_feature_widths_raise() -> None:
    toy = subject(normal(90, 3, seed=0), normal(9, 2, seed=1), domains=DOMAINS)
    with pytest.raises(InputError, match="'source' has 3 features per row and 'target' has 2"):
        measure_one(MultiSource(HDivergence()), toy)
