"""`import oodometer` is light: no optional package, and little time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

HEAVY = ("torch", "cv2", "PIL", "onnxruntime", "transformers", "tokenizers", "safetensors", "altair",
         "vl_convert", "dask", "distributed", "pandas", "polars", "sklearn", "scipy", "pyarrow",
         "typer", "rich", "jinja2")  # fmt: skip


def loaded_after(statement: str, folder: Path) -> set[str]:
    """Heavy modules in a fresh interpreter after a statement; stand-ins are there for each."""
    for name in HEAVY:
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "__init__.py").write_text("")
    code = f"""
import sys
sys.path.insert(0, {str(folder)!r})
{statement}
import json
print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def test_importing_loads_none_of_the_heavy_packages(tmp_path: Path) -> None:
    assert loaded_after("import oodometer", tmp_path) == set()


def test_the_check_sees_a_package_that_is_loaded(tmp_path: Path) -> None:
    assert loaded_after("import oodometer, torch", tmp_path) == {"torch"}


def test_importing_costs_at_most_twice_what_numpy_does() -> None:
    """The sum of what `-X importtime` gives our own modules and what they pull in."""
    command = [sys.executable, "-X", "importtime", "-c", "import numpy; import oodometer"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    times = [line.split("|") for line in done.stderr.splitlines() if line.count("|") == 2]
    taken = {name.strip(): total for _, total, name in times}
    assert int(taken["oodometer"]) < 2 * int(taken["numpy"])


PUBLIC = {
    "estimate", "estimate_files", "plan_labels", "invariance", "rank", "suggest_transforms",
    "measure", "evaluate", "read_predictions", "as_model", "as_dataset",
    "Predictions", "Assessment", "Estimate", "Score", "History", "LabelingPlan",
    "InvarianceResult", "Ranking", "TransformSuitability", "Measurements", "Evaluation",
    "OodometerError", "InputError", "UnknownName", "NotApplicable", "MissingExtra",
    "__version__",
}  # fmt: skip


def test_public_names() -> None:
    import oodometer
    from oodometer import studies

    assert set(oodometer.__all__) == PUBLIC
    assert all(hasattr(oodometer, name) for name in oodometer.__all__)
    assert {"Study", "compare_measures"} <= set(studies.__all__)


def test_functions_take_data_first_then_keyword_only_options() -> None:
    import inspect

    import oodometer

    data = {"source", "target", "model", "models", "data", "path"}
    for name in sorted(PUBLIC - {"__version__"}):
        function = getattr(oodometer, name)
        if inspect.isfunction(function):
            parameters = inspect.signature(function).parameters.values()
            positional = [one.name for one in parameters if one.kind is not one.KEYWORD_ONLY]
            assert set(positional) <= data, name
