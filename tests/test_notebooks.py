"""Every notebook runs, shows its results as HTML, and computes what its text says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

from tests.support.markdown_pages import ROOT

EXAMPLES = ROOT / "examples"
# jupyter_client warns about its own event loop and about settings of the kernel.
pytestmark = pytest.mark.filterwarnings("default")


def execute(name: str, folder: Path, values: str) -> tuple[Any, dict[str, Any]]:
    """Run a notebook in a folder; return it, and the values of a dictionary display."""
    notebook = nbformat.read(EXAMPLES / name, as_version=4)
    notebook.cells.append(nbformat.v4.new_code_cell(f"import json\nprint(json.dumps({values}))"))
    client = nbclient.NotebookClient(
        notebook,
        timeout=600,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
    )
    client.execute()
    (printed,) = notebook.cells[-1].outputs
    return notebook, json.loads(printed.text)


def html_outputs(notebook: Any) -> list[str]:
    return [
        output.data["text/html"]
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if "text/html" in output.get("data", {})
    ]


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda path: path.name)
def test_outputs_are_stripped(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code
    assert all(not cell.outputs and cell.execution_count is None for cell in code)


def test_estimate_notebook(tmp_path: Path) -> None:
    notebook, values = execute(
        "estimate.ipynb",
        tmp_path,
        '{"estimate": result.accuracy, "truth": true_accuracy, "files": from_files.accuracy, '
        '"metrics": len(from_files.metrics), "bound": from_files.bound.value}',
    )
    assert values["estimate"] == values["files"]
    assert values["estimate"] == pytest.approx(values["truth"], abs=0.06)
    assert values["metrics"] == 22
    assert values["bound"] < values["estimate"]
    assert "<title>Noisy digits</title>" in (tmp_path / "report.html").read_text()
    assert f"{100 * values['estimate']:.1f} % estimated accuracy" in html_outputs(notebook)[0]


def test_rank_notebook(tmp_path: Path) -> None:
    notebook, values = execute(
        "rank_models.ipynb",
        tmp_path,
        '{"names": ranking.names, "truth": truth, '
        '"tau": {name: comparison.summary(name, "macro_tau").mean for name in ("ni", "doc")}}',
    )
    names, truth = values["names"], values["truth"]
    assert names[0] == max(truth, key=lambda name: truth[name])
    assert names[-1] == min(truth, key=lambda name: truth[name])
    assert values["tau"]["doc"] > values["tau"]["ni"] > 0.2
    assert any("Which measures predict accuracy?" in html for html in html_outputs(notebook))


def test_month_notebook(tmp_path: Path) -> None:
    notebook, values = execute(
        "monitor_months.ipynb",
        tmp_path,
        '{"history": len(history), "range": result.typical_range, "domains": result.shift.n_domains, '
        '"months": list(segments.index), "values": list(segments["value"]), '
        '"truth": list(segments["true_accuracy"]), "low": list(segments["typical_low"])}',
    )
    assert values["history"] == values["domains"] == 6
    assert values["months"] == [f"2026-{month:02d}" for month in range(7, 13)]
    assert values["values"][-1] < values["values"][0]
    assert values["truth"] == pytest.approx(values["values"], abs=0.06)
    assert values["range"][0] < values["range"][1]
    assert all(low is not None for low in values["low"])
    assert any("2026-12" in html and "typical range" in html for html in html_outputs(notebook))
