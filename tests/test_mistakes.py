"""The page of typical mistakes shows the current messages."""

from __future__ import annotations

from benchmarks import mistakes


def test_page_of_mistakes_is_up_to_date() -> None:
    assert len(mistakes.MISTAKES) >= 10
    expected = mistakes.render()
    page = mistakes.PAGE.read_text(encoding="utf-8")
    assert page == expected, "Run `python -m benchmarks.mistakes`."
    assert "Traceback" not in page


def test_every_mistake_has_a_message_of_one_line() -> None:
    rows = mistakes.PAGE.read_text(encoding="utf-8").removeprefix(mistakes.HEADER).splitlines()
    assert len(rows) == len(mistakes.MISTAKES)
    for row in rows:
        message = row.strip("| ").split(" | ")[-1]
        assert len(message) > 30, row
        assert message.endswith((".", "?", "--help")), row
