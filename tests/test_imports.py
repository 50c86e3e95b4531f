"""`import oodometer` imports no optional package and takes little time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

HEAVY = ("torch", "cv2", "PIL", "onnxruntime", "transformers", "tokenizers", "safetensors", "altair",
         "vl_convert", "dask", "distributed", "pandas", "polars", "pydantic", "sklearn", "scipy", "pyarrow",
         "typer", "rich", "jinja2")  # fmt: skip


def imported_by(statement: str, folder: Path) -> set[str]:
    """Return the heavy packages that a statement imports; empty packages stand in for them."""
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


def test_import_loads_no_heavy_package(tmp_path: Path) -> None:
    assert imported_by("import oodometer", tmp_path) == set()


def test_a_loaded_package_is_detected(tmp_path: Path) -> None:
    assert imported_by("import oodometer, torch", tmp_path) == {"torch"}


def test_import_takes_at_most_twice_the_time_of_numpy() -> None:
    command = [sys.executable, "-X", "importtime", "-c", "import numpy; import oodometer"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    times = [line.split("|") for line in done.stderr.splitlines() if line.count("|") == 2]
    microseconds = {name.strip(): total for _, total, name in times}
    assert int(microseconds["oodometer"]) < 2 * int(microseconds["numpy"])


PUBLIC = {
    "estimate", "estimate_files", "plan_labels", "invariance", "rank", "suggest_transforms",
    "measure", "evaluate", "read_predictions", "as_model", "as_dataset",
    "Predictions", "Assessment", "Reference", "Estimate", "Score", "History", "LabelingPlan",
    "InvarianceResult", "Ranking", "TransformSuitability", "Measurements", "Evaluation",
    "OodometerError", "InputError", "UnknownName", "NotApplicable", "MissingExtra", "Monitor",
    "__version__",
}  # fmt: skip


def test_public_names_are_fixed() -> None:
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
            positional = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
            assert set(positional) <= data, name
