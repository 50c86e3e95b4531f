"""Text format of Prometheus: every line has the documented syntax, names are escaped."""

from __future__ import annotations

import re
from pathlib import Path

from oodometer import Monitor, Predictions
from oodometer.monitor.prometheus import prometheus_text
from tests.monitor.conftest import draw

SAMPLE = re.compile(
    r'[a-z_]+\{[a-z_]+="(?:[^"\\\n]|\\["\\n])*"(?:,[a-z_]+="(?:[^"\\\n]|\\["\\n])*")*\} (\S+)'
)


def samples(text: str) -> dict[str, float]:
    """Return the values by name and labels; every line must have the documented syntax."""
    assert text.endswith("\n")
    values = {}
    for line in text.splitlines():
        if line.startswith("# "):
            assert re.fullmatch(r"# (HELP [a-z_]+ .+|TYPE [a-z_]+ gauge)", line)
            continue
        match = SAMPLE.fullmatch(line)
        assert match is not None, line
        values[line.rpartition(" ")[0]] = float(match[1])
    return values


def test_values_are_those_of_the_status(monitor: Monitor) -> None:
    empty = samples(prometheus_text(monitor.status(), "m"))
    assert empty['oodometer_monitor_cannot_tell{monitor="m"}'] == 1
    assert 'oodometer_monitor_accuracy{monitor="m"}' not in empty
    batch = monitor.add(draw(400, 1))
    values = samples(prometheus_text(monitor.status(), "m"))
    assert values['oodometer_monitor_accuracy{monitor="m"}'] == batch.estimate
    assert values['oodometer_monitor_rows{monitor="m"}'] == 400
    assert values['oodometer_monitor_alarm{monitor="m"}'] == 0


def test_names_are_escaped(source: Predictions, tmp_path: Path) -> None:
    monitor = Monitor.create(tmp_path, source)
    monitor.add(draw(40, 1), segment_by=['a"b\nc\\'] * 40)
    values = samples(prometheus_text(monitor.status(), 'x"'))
    assert any('segment="a\\"b\\nc\\\\"' in name for name in values)
