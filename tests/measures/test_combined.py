"""Divergences over several source domains, with the error added, and all of them by name."""

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


def several(shift: float = 0.5) -> Subject:
    """Three source domains of 30 rows that differ."""
    source = normal(90, 4, seed=0) + 0.4 * (np.arange(90) % 3)[:, None]
    return with_classes(source, normal(50, 4, seed=1, shift=shift), 3, DOMAINS)


def test_there_are_all_32_by_the_names_of_the_paper() -> None:
    names = [
        f"{stem}-divergence{train}{several}{error}"
        for stem in STEMS
        for train in ("", "-train")
        for several in ("", "-ms")
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


def test_each_is_a_measure_and_says_what_it_needs() -> None:
    for member in DIVERGENCES:
        assert isinstance(member, Measure)
        assert hash(member) == hash(member)
        assert "NeurIPS" in member.paper
        assert "features" in member.needs
        assert ("source domains" in member.needs) == ("-ms" in member.name)
        assert ("labels" in member.needs) == member.name.endswith("+source-error")


@pytest.mark.parametrize("base", [HDivergence(), HDeltaHDivergence(half="train", steps=60)])
def test_of_several_sources_it_is_the_mean_of_each_alone(base: Measure) -> None:
    one = several()
    found = measure_one(MultiSource(base), one)
    alone = {}
    for name in ("cartoon", "photo", "sketch"):
        rows = np.array([domain == name for domain in DOMAINS])
        side = ModelView(ViewSource("source", features=one.source.features[rows]))
        alone[f"domain_{name}"] = measure_one(base, Subject(side, one.target)).value
    assert len(set(alone.values())) > 1
    assert found.value == sum(alone.values()) / 3
    assert dict(found.facts) == alone


@pytest.mark.parametrize("base", [HDivergence(), MultiSource(HDeltaHDivergence(steps=30))])
def test_the_error_on_the_source_is_added(base: Measure) -> None:
    one = several()
    found, plain, error = (
        measure_one(m, one) for m in (PlusSourceError(base), base, SourceError())
    )
    assert 0 < error.value < 1
    assert found.value == plain.value + error.value
    assert found.notes == plain.notes
    assert dict(found.facts) == {**plain.facts, "source_error": error.value}


def test_it_assumes_what_its_parts_assume() -> None:
    base = HDivergence()
    several, summed = MultiSource(base), PlusSourceError(base)
    assert several.assumes == f"{base.assumes}; every source domain alike"
    assert summed.assumes == f"{base.assumes}; {SourceError.assumes}"


class Bare(HDivergence):
    """One that gives a bare number."""

    def measure(self, subject: Subject) -> Any:
        return float(subject.reference.n)


def test_a_measure_of_ones_own_may_give_a_bare_number() -> None:
    one = several()
    assert measure_one(MultiSource(Bare()), one).value == 30
    error = measure_one(SourceError(), one).value
    assert measure_one(PlusSourceError(Bare()), one).value == 90 + error


def test_a_sum_has_not_the_interval_of_one_part() -> None:
    assert measure_one(MmdRandomFeatures(count=9), several()).low is not None
    found = measure_one(PlusSourceError(MmdRandomFeatures(count=9)), several())
    assert (found.low, found.high) == (None, None)


def test_with_training_data_the_error_is_still_of_the_source() -> None:
    source = ModelView(
        ViewSource("source", outputs=outputs(40, 3, seed=0), features=normal(40, 4, seed=5))
    )
    target = ModelView(
        ViewSource("target", outputs=outputs(30, 3, seed=1), features=normal(30, 4, seed=1))
    )
    training = several().source
    one = Subject(source, target, training)
    found = measure_one(PlusSourceError(MultiSource(HDivergence())), one)
    assert found.facts["source_error"] == measure_one(SourceError(), one).value
    apart = measure_one(MultiSource(HDivergence()), Subject(training, target))
    assert found.value == apart.value + found.facts["source_error"]


def test_all_32_share_a_fit_a_head_and_a_domain(monkeypatch: pytest.MonkeyPatch) -> None:
    fits: list[str] = []

    def fitted(head: Any, *args: Any, **named: Any) -> _domain_classifiers.FittedHead:
        fits.append(head)
        return _domain_classifiers.fit_head(head, *args, **named)

    def taught(*args: Any, **named: Any) -> tuple[int, bool]:
        fits.append("pair")
        return symmetric_teach(*args, **{**named, "max_steps": 5})

    symmetric_teach = hdh_divergence.train_heads
    monkeypatch.setattr(h_divergence, "fit_head", fitted)
    monkeypatch.setattr(hdh_divergence, "train_heads", taught)
    monkeypatch.setitem(_domain_classifiers.MAX_FIT_STEPS, "larger", 5)
    one = several()
    for member in DIVERGENCES:
        assert isinstance(measure_one(member, one), Score)
    # All domains as one, and three alone; two heads each.
    assert [fits.count(kind) for kind in ("linear", "larger", "pair")] == [4, 4, 8]


def test_the_order_of_rows_does_not_change_it() -> None:
    one = several()
    measure = PlusSourceError(MultiSource(HDivergence()))
    first = measure_one(measure, one)
    found = measure_one(measure, shuffled(one, 0))
    assert found.value == pytest.approx(first.value, abs=1e-12)
    assert found.facts == pytest.approx(first.facts)


def test_a_note_says_of_which_domain_it_is() -> None:
    found = measure_one(MultiSource(HDivergence(rows=20)), several())
    cut = "only 20 of 30 rows a side were used, drawn at random"
    assert found.notes == tuple(f"{name}: {cut}" for name in ("cartoon", "photo", "sketch"))


def test_a_refusal_says_of_which_domain_it_is() -> None:
    domains = np.array(["big"] * 20 + ["tiny"] * 3)
    one = subject(normal(23, 2, seed=0), normal(30, 2, seed=1), domains=domains)
    assert measure_one(HDivergence(), one).value > 0
    message = "of the source domain 'tiny': it splits both sides in two, and 3 rows a side"
    with pytest.raises(NotApplicable, match=message):
        measure_one(MultiSource(HDivergence()), one)


def test_one_domain_or_none_is_refused() -> None:
    source, target = normal(20, 2, seed=0), normal(20, 2, seed=1)
    one = subject(source, target, domains=np.array(["photo"] * 20))
    with pytest.raises(NotApplicable, match="it is a mean over source domains, and there is 1"):
        measure_one(MultiSource(HDivergence()), one)
    for ask in (measure_one, lambda measure, subject: measure.measure(subject)):
        with pytest.raises(NotApplicable, match="it needs source domains"):
            ask(MultiSource(HDivergence()), subject(source, target))


def test_without_labels_the_error_is_refused() -> None:
    with pytest.raises(NotApplicable, match="it needs outputs"):
        measure_one(
            PlusSourceError(HDivergence()), subject(normal(9, 2, seed=0), normal(9, 2, seed=1))
        )


def test_what_can_not_be_used_at_all_is_an_error() -> None:
    one = subject(normal(90, 3, seed=0), normal(9, 2, seed=1), domains=DOMAINS)
    with pytest.raises(InputError, match="'source' are 3 wide, those of 'target' 2"):
        measure_one(MultiSource(HDivergence()), one)
