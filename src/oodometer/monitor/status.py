"""Status of a monitor: whether there is an alarm, the latest batch, the evidence and the segments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from oodometer.core.jsonable import fields_to_jsonable

StateName = Literal["quiet", "alarm", "cannot tell"]
EXIT_CODES: dict[str, int] = {"quiet": 0, "alarm": 1, "cannot tell": 3}
PROMISE = (
    "If new batches come from the source distribution (with the batch-to-batch variation seen so "
    "far), the probability of ever raising an alarm is at most {alpha:g} %. An alarm does not prove "
    "that the accuracy fell, and silence does not prove that it did not: without labels, a change "
    "that leaves the scores unchanged is invisible."
)


@dataclass(frozen=True, kw_only=True)
class MonitoredBatch:
    """Estimate of one batch.

    Parameters
    ----------
    number : int
        Number of the batch in the order of arrival, from 1.
    name, time, arrived : str
        Name of its file, its time (None if unknown), and when it was added.
    n : int
        Number of rows.
    estimate, low, high : float
        Estimated accuracy and its 95 % confidence interval, which reflects sampling error only.
    evidence : float
        Evidence M against "the mean score is at least the level" after this batch.
    estimates : dict of str to float
        Estimates of further methods.
    typical_low, typical_high : float, optional
        Typical range of the accuracy; None unless at least five earlier batches have labels.
    label_estimate, label_low, label_high : float, optional
        Accuracy from labels of the batch, with its 95 % confidence interval.
    n_labels : int
        Number of labelled rows.
    is_new : bool
        False if `add` was called with a batch that the monitor already has.
    """

    number: int
    name: str
    time: str | None
    arrived: str
    n: int
    estimate: float
    low: float | None
    high: float | None
    evidence: float
    estimates: dict[str, float]
    typical_low: float | None = None
    typical_high: float | None = None
    label_estimate: float | None = None
    label_low: float | None = None
    label_high: float | None = None
    n_labels: int = 0
    is_new: bool = False


@dataclass(frozen=True, kw_only=True)
class Alarm:
    """Alarm of a stream.

    Parameters
    ----------
    stream : str
        "all rows", "audited labels", or "segment" with its name.
    batch : int
        Number of the batch after which the evidence reached the limit.
    run : int
        Number of the run of the detector, from 1.
    evidence : float
        Evidence M.
    raised, acknowledged : str
        Times of the alarm and of its acknowledgement, which is None at first.
    """

    stream: str
    batch: int
    run: int
    evidence: float
    raised: str
    acknowledged: str | None


@dataclass(frozen=True, kw_only=True)
class SegmentStatus:
    """Latest estimate of a segment; without source rows of the segment, there are no alarms.

    Parameters
    ----------
    name : str
        Value of the segment.
    n : int
        Number of rows in the latest batch that has segments.
    estimate : float
        Accuracy on the source rows of the segment minus the drop, or the mean score without them.
    drop : float or None
        Mean score of the segment on the source minus that in the batch.
    evidence : float or None
        Evidence M of the segment.
    is_alarm : bool
        Whether there is an alarm that was not acknowledged.
    """

    name: str
    n: int
    estimate: float
    drop: float | None
    evidence: float | None
    is_alarm: bool


@dataclass(frozen=True, kw_only=True)
class AuditStatus:
    """Test of the true accuracy on audited rows.

    Parameters
    ----------
    n_labels, n_correct : int
        Number of labelled audited rows, and on how many the model is correct.
    n_waiting : int
        Number of drawn rows without a label.
    share : float
        Share of rows to label at present.
    evidence, level : float
        Evidence M that the accuracy is below the level.
    is_alarm : bool
        Whether there is an alarm that was not acknowledged.
    """

    n_labels: int
    n_correct: int
    n_waiting: int
    share: float
    evidence: float
    level: float
    is_alarm: bool


@dataclass(frozen=True, kw_only=True)
class MonitorStatus:
    """State of a monitor.

    Parameters
    ----------
    state : {"quiet", "alarm", "cannot tell"}
        "cannot tell" means that there are too few batches or rows for a test.
    reason : str
        Reason for the state, in one line.
    n_batches, n_rows : int
        Number of batches and rows that were added.
    level, margin, source_mean, source_accuracy : float
        Level m0 of the mean score, tolerated fall, mean score and accuracy on the source.
    false_alarms : float
        Promised probability of ever raising a false alarm.
    evidence, limit : float
        Evidence M, and the value at which an alarm is raised.
    latest : MonitoredBatch or None
        Latest batch in the order of time.
    alarms : tuple of Alarm
        All alarms, in the order in which they were raised.
    segments : tuple of SegmentStatus
        Segments of the latest batch that has any, the largest drop first.
    audit : AuditStatus
        Test of the true accuracy.
    n_labelled_batches : int
        Number of batches whose labels the typical range uses.
    """

    state: StateName
    reason: str
    n_batches: int
    n_rows: int
    level: float
    margin: float
    source_mean: float
    source_accuracy: float
    false_alarms: float
    evidence: float
    limit: float
    latest: MonitoredBatch | None
    alarms: tuple[Alarm, ...]
    segments: tuple[SegmentStatus, ...]
    audit: AuditStatus
    n_labelled_batches: int

    @property
    def promise(self) -> str:
        """Return what is promised, and what is not."""
        return PROMISE.format(alpha=100 * self.false_alarms)

    @property
    def exit_code(self) -> int:
        """Return 0 if the monitor is quiet, 1 after an alarm, 3 if it cannot tell."""
        return EXIT_CODES[self.state]

    def to_dict(self) -> dict[str, Any]:
        """Return the status for JSON, with its schema version."""
        return {"schema": 1, **fields_to_jsonable(self), "promise": self.promise}
