"""Check the wheel as its first user would: install it without extras, and run one estimate.

Uses only the standard library. Prints the time from `pip install` to the first estimate, and fails
if a step fails, if a data file of the package is missing in the wheel, if the estimate is not a
number between 0 and 1, or if the metadata of a wheel that is built with the address of a repository
lack URLs or have relative links.

    python .ci/wheel_check.py [WHEEL]        # without WHEEL, the wheel is built first
"""

from __future__ import annotations

import csv
import json
import os
import random
import runpy
import subprocess
import sys
import time
import venv
import zipfile
from email import message_from_bytes
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "oodometer"
PIP = ("-m", "pip", "--quiet", "--disable-pip-version-check")
HOOK = runpy.run_path(str(ROOT / "hatch_build.py"))
# Address with which a wheel is built to check its links; the hosts of examples do not exist.
PLACEHOLDER_URL = "https://example.org/oodometer"
URLS = ("Source", "Documentation", "Changelog", "Issues")


def build(folder: Path, url: str | None = None) -> Path:
    """Build the wheel into a folder, with the address of the repository if it is given."""
    settings = {} if url is None else {HOOK["URL_VARIABLE"]: url}
    words = ("wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT))
    run(sys.executable, *PIP, *words, **settings)
    (wheel,) = folder.glob("oodometer-*.whl")
    return wheel


def metadata_problems(wheel: Path, url: str) -> list[str]:
    """Return what a package registry could not show: missing URLs, and relative links."""
    archive = zipfile.ZipFile(wheel)
    (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    metadata = message_from_bytes(archive.read(name))
    urls = dict(line.split(", ", 1) for line in metadata.get_all("Project-URL", []))
    problems = [f"no URL {label}" for label in URLS if not urls.get(label, "").startswith(url)]
    text = metadata.get_payload(decode=True).decode()
    problems += [f"relative link {target}" for target in HOOK["relative_targets"](text)]
    if url not in text:
        problems.append("no link to the repository")
    return problems


def missing_files(wheel: Path) -> list[str]:
    """Return the files of the package, apart from caches, that the wheel does not contain."""
    packed = set(zipfile.ZipFile(wheel).namelist())
    files = [path for path in PACKAGE.rglob("*") if path.is_file()]
    names = [path.relative_to(PACKAGE.parent).as_posix() for path in files]
    return sorted(name for name in names if "__pycache__" not in name and name not in packed)


def write_outputs(path: Path, *, n_rows: int, labelled: bool) -> None:
    """Write calibrated probabilities of two classes, with labels if requested."""
    rng = random.Random(path.name)
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["prob_no", "prob_yes", *(["label"] if labelled else [])])
        for _ in range(n_rows):
            prob = round(rng.betavariate(0.7, 0.7), 4)
            label = "yes" if rng.random() < prob else "no"
            rows.writerow([round(1 - prob, 4), prob, *([label] if labelled else [])])


def first_estimate(python: str, folder: Path) -> float:
    """Return the accuracy that the installed command estimates on two small CSV files."""
    source, target = folder / "source.csv", folder / "target.csv"
    write_outputs(source, n_rows=500, labelled=True)
    write_outputs(target, n_rows=400, labelled=False)
    command = Path(python).with_name("oodometer")
    result = json.loads(run(str(command), "estimate", str(source), str(target), "--json"))
    return float(result["headline"]["value"])


def run(*command: str, **settings: str) -> str:
    """Return the output of a command; stop with its messages if it fails.

    `settings` are environment variables of the command.
    """
    # Neither PYTHONPATH nor the current folder may provide another copy of the package.
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | settings
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", env=env)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def main() -> None:
    """Build or take the wheel, check its files, install it, and run one estimate."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        wheel = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else build(folder)
        if missing := missing_files(wheel):
            sys.exit(
                f"{wheel.name} lacks {', '.join(missing)}; see [tool.hatch.build] of pyproject.toml"
            )
        url, linked = HOOK["repository_url"](os.environ), wheel
        if url is None:
            url, linked = PLACEHOLDER_URL, build(folder / "linked", PLACEHOLDER_URL)
        if problems := metadata_problems(linked, url):
            sys.exit(
                f"the metadata of {linked.name} have {', '.join(problems)}; see hatch_build.py"
            )
        venv.create(folder / "empty", with_pip=True)
        python = str(folder / "empty" / "bin" / "python")
        start = time.perf_counter()
        run(python, *PIP, "install", str(wheel))
        installed = time.perf_counter()
        accuracy = first_estimate(python, folder)
        done = time.perf_counter()
    if not 0 <= accuracy <= 1:
        sys.exit(f"the estimated accuracy is {accuracy}, which is not between 0 and 1")
    print(
        f"{wheel.name} on Python {sys.version.split()[0]}: {done - start:.1f} s from pip install to the "
        f"first estimate ({installed - start:.1f} s for pip install); estimated accuracy {accuracy:.3f}"
    )


if __name__ == "__main__":
    main()
