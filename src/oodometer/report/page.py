"""The page itself: a template, the drawing scripts, and a file that is whole or not there."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oodometer.assessment.diagnostics import STATUS_SHAPES
from oodometer.assessment.result import format_interval, format_percent
from oodometer.core.errors import InputError
from oodometer.core.optional_imports import require
from oodometer.data.atomic import atomic_write
from oodometer.report.histograms import truncate_name

if TYPE_CHECKING:
    import jinja2

TEMPLATE_FOLDER = Path(__file__).parent
REPORT_PURPOSE = "The HTML report"


def check_available() -> None:
    """Raise MissingExtra where a package of the report is not installed."""
    for module in ("altair", "vl_convert"):
        require(module, extra="report", purpose=REPORT_PURPOSE)


def render(template: str, context: Mapping[str, Any]) -> str:
    """A whole page from one of the templates of this folder."""
    # Imported here, so that a command without a page starts without it.
    from markupsafe import Markup

    check_available()
    scripts = [_vega_bundle(), (TEMPLATE_FOLDER / "embed.js").read_text(encoding="utf-8")]
    return (
        jinja_environment()
        .get_template(template)
        .render(
            context,
            style=Markup((TEMPLATE_FOLDER / "page.css").read_text(encoding="utf-8")),
            scripts=[Markup(script) for script in scripts],
            allowed=" ".join(_csp_hash(script) for script in scripts),
        )
    )


def use_nonbreaking_percent(text: str) -> str:
    """Text whose percent signs stay with their numbers at the end of a line."""
    return text.replace(" %", "\N{NO-BREAK SPACE}%")


def jinja_environment() -> jinja2.Environment:
    """Templates that escape all they are given and know how numbers are shown."""
    import jinja2

    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATE_FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "points": format_percent,
        "span": format_interval,
        "shortened": truncate_name,
        "tied": use_nonbreaking_percent,
    }
    made.globals["shapes"] = STATUS_SHAPES
    # `tojson` escapes <, >, & and ', and json.dumps all that is not ASCII, U+2028 among it; a NaN
    # would be no JSON, and is better found here than in the browser.
    made.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    return made


def _vega_bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script."""
    text: str = require("vl_convert", extra="report", purpose=REPORT_PURPOSE).javascript_bundle()
    # The one thing that can end a script element early; `\/` is `/` wherever it could stand.
    return text.replace("</script", "<\\/script")


def _csp_hash(script: str) -> str:
    """How the page's security policy names a script that may run; no other may."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def write_page(text: str, path: str | Path) -> None:
    """Write a page so that the path holds either the old file or the whole new one."""
    path = Path(path).resolve()
    check_writable(path)
    try:
        with atomic_write(path) as partial:
            partial.write_bytes(text.encode("utf-8", errors="replace"))
    except OSError as error:
        why = error.strerror or error
        raise InputError(f"{path} can't be written: {why}. Choose another place.") from error


def check_writable(path: Path) -> None:
    """Refuse a path where no file can be put."""
    if path.is_dir():
        raise InputError(
            f"{path} is a folder. Give the name of a file in it, such as {path / 'report.html'}."
        )
    if path.exists() and not path.is_file():
        raise InputError(f"{path} is not a regular file. Give the name of an .html file.")
    if not path.parent.is_dir():
        raise InputError(f"There is no folder {path.parent}. Make it first, or write elsewhere.")
