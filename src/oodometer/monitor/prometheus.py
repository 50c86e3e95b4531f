"""Status of a monitor in the text format of Prometheus, for the textfile collector."""

from __future__ import annotations

from collections.abc import Iterator

from oodometer.monitor.status import MonitorStatus

PREFIX = "oodometer_monitor"


def prometheus_text(status: MonitorStatus, name: str) -> str:
    r"""Return the metrics of a monitor; `name` is the value of the label `monitor`.

    Parameters
    ----------
    status : MonitorStatus
        Status of the monitor.
    name : str
        Name of the monitor.

    Returns
    -------
    str
        Text with one line per metric, which ends with a line break.
    """
    return "".join(f"{line}\n" for line in _lines(status, name))


def escape_label(value: str) -> str:
    r"""Escape backslashes, quotes and line breaks of the value of a label.

    >>> print(escape_label('a"b\n'))
    a\"b\n
    """
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _lines(status: MonitorStatus, name: str) -> Iterator[str]:
    label = f'monitor="{escape_label(name)}"'
    values = {
        "alarm": ("Whether there is an alarm that was not acknowledged.", status.state == "alarm"),
        "cannot_tell": ("Whether too few batches were added.", status.state == "cannot tell"),
        "evidence": ("Evidence that the mean score is below the level.", status.evidence),
        "evidence_limit": ("Evidence at which an alarm is raised.", status.limit),
        "level": ("Level of the mean score.", status.level),
        "source_accuracy": ("Accuracy on the source.", status.source_accuracy),
        "batches": ("Number of batches.", status.n_batches),
        "rows": ("Number of rows.", status.n_rows),
        "audit_evidence": ("Evidence of audited labels.", status.audit.evidence),
        "audit_rows_waiting": ("Audited rows without a label.", status.audit.n_waiting),
    }
    latest = status.latest
    if latest is not None:
        values |= {
            "accuracy": ("Estimated accuracy of the latest batch.", latest.estimate),
            "accuracy_low": ("Lower end of its confidence interval.", latest.low or 0.0),
            "accuracy_high": ("Upper end of its confidence interval.", latest.high or 0.0),
        }
    for metric, (text, value) in values.items():
        yield f"# HELP {PREFIX}_{metric} {text}"
        yield f"# TYPE {PREFIX}_{metric} gauge"
        yield f"{PREFIX}_{metric}{{{label}}} {float(value):.17g}"
    if status.segments:
        yield f"# HELP {PREFIX}_segment_accuracy Estimated accuracy of a segment."
        yield f"# TYPE {PREFIX}_segment_accuracy gauge"
        for segment in status.segments:
            part = f'{label},segment="{escape_label(segment.name)}"'
            yield f"{PREFIX}_segment_accuracy{{{part}}} {segment.estimate:.17g}"
