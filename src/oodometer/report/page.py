"""Render self-contained HTML pages from templates and write them atomically."""

from __future__ import annotations

import base64
import hashlib
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import oodometer
from oodometer.assessment.result import format_interval, format_percent
from oodometer.core.errors import InputError
from oodometer.core.optional_imports import require
from oodometer.core.results import STATUS_SHAPES
from oodometer.data.atomic import atomic_write
from oodometer.report.histograms import truncate_name

if TYPE_CHECKING:
    import jinja2

# Folder of the shared templates, styles and scripts.
TEMPLATE_FOLDER = Path(__file__).parent / "templates"
REPORT_PURPOSE = "The HTML report"


def check_available() -> None:
    """Raise if a package that reports need is not installed.

    Raises
    ------
    MissingExtra
        If altair or vl-convert is missing.

    Examples
    --------
    >>> check_available()
    """
    for module in ("altair", "vl_convert"):
        require(module, extra="report", purpose=REPORT_PURPOSE)


def render(template: str, context: Mapping[str, Any], *, folder: Path | None = None) -> str:
    """Return a complete HTML page with charts; templates in `folder` have priority."""
    check_available()
    scripts = [_vega_bundle(), (TEMPLATE_FOLDER / "embed.js").read_text(encoding="utf-8")]
    return render_with_scripts(template, context, scripts, folder=folder)


def render_with_scripts(
    template: str, context: Mapping[str, Any], scripts: list[str], *, folder: Path | None = None
) -> str:
    """Return a complete HTML page in which browsers run only the given scripts."""
    # Imported here so that commands that do not write a page start faster.
    from markupsafe import Markup

    return (
        jinja_environment(folder)
        .get_template(template)
        .render(
            {"date": None} | dict(context),
            style=Markup((TEMPLATE_FOLDER / "page.css").read_text(encoding="utf-8")),
            scripts=[Markup(script) for script in scripts],
            allowed=" ".join(_csp_hash(script) for script in scripts) or "'none'",
        )
    )


def jinja_environment(folder: Path | None = None) -> jinja2.Environment:
    """Return an environment whose templates escape all values, with filters to format numbers."""
    import jinja2

    folders = [TEMPLATE_FOLDER] if folder is None else [folder, TEMPLATE_FOLDER]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folders),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "points": format_percent,
        "span": format_interval,
        "shortened": truncate_name,
        "tied": use_nonbreaking_percent,
    }
    environment.globals["shapes"] = STATUS_SHAPES
    # `tojson` escapes <, >, & and '. json.dumps escapes all characters that are not ASCII, such as
    # U+2028. NaN is not valid JSON and should raise here rather than fail in the browser.
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    return environment


def use_nonbreaking_percent(text: str) -> str:
    """Replace the space before percent signs by a no-break space."""
    return text.replace(" %", "\N{NO-BREAK SPACE}%")


def versions_text() -> str:
    """Return the versions that determine results, for the provenance of a report."""
    versions = {
        "oodometer": oodometer.__version__,
        "Python": platform.python_version(),
        "numpy": np.__version__,
    }
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _vega_bundle() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script."""
    text: str = require("vl_convert", extra="report", purpose=REPORT_PURPOSE).javascript_bundle()
    # Only "</script" can end a script element early; in JavaScript strings "\/" equals "/".
    return text.replace("</script", "<\\/script")


def _csp_hash(script: str) -> str:
    """Return the hash that allows a script in the page's content security policy."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def write_page(text: str, path: str | Path) -> None:
    """Write a page atomically: `path` holds either the old file or the complete new one.

    Parameters
    ----------
    text : str
        Complete HTML page.
    path : str or Path
        File to write; an existing file is replaced.

    Raises
    ------
    InputError
        If the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "report.html"
    >>> write_page("<!doctype html>", path)
    >>> path.read_text()
    '<!doctype html>'
    """
    path = Path(path).resolve()
    check_writable(path)
    try:
        with atomic_write(path) as partial:
            partial.write_bytes(text.encode("utf-8", errors="replace"))
    except OSError as error:
        raise InputError(
            f"Cannot write {path}: {error.strerror or error}. Choose another path."
        ) from error


def check_writable(path: Path) -> None:
    """Raise if no file can be written at a path.

    Parameters
    ----------
    path : Path
        File to write.

    Raises
    ------
    InputError
        If the path is a folder or not a regular file, or its folder does not exist.

    Examples
    --------
    >>> check_writable(Path("no_such_folder") / "report.html")
    Traceback (most recent call last):
    ...
    oodometer.core.errors.InputError: There is no folder no_such_folder. Create it, or choose another path.
    """
    if path.is_dir():
        raise InputError(
            f"{path} is a folder. Give the path of a file in it, such as {path / 'report.html'}."
        )
    if path.exists() and not path.is_file():
        raise InputError(f"{path} is not a regular file. Give the path of an .html file.")
    if not path.parent.is_dir():
        raise InputError(f"There is no folder {path.parent}. Create it, or choose another path.")
