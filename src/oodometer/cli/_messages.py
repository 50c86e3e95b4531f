"""Translate messages of the library, which name Python arguments, to the options of the commands.

The library's messages are written for Python. Here, arguments such as ``skip_bad=True`` become
options such as ``--skip-bad``, at one place for all commands.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection

OWN_FUNCTION = (
    "name package.module:function as the model, a function that prepares the inputs and calls it"
)
# Python argument -> option, where the option is not the name of the argument with hyphens.
OPTION_NAMES = {
    "labels": "--label-column",
    "corruptions": "--corruption",
    "source": "--source-data",
    "measures": "--measure",
    "methods": "--method",
    "thresholds": "--threshold",
}
# Value of an argument in a message, such as …, True, '…', [… or (0, 1).
_VALUE = r"(?:…|True|'[^']*'|\"[^\"]*\"|\[…\]|\([^)]*\))"
_REPLACEMENTS: tuple[tuple[str, str], ...] = (
    (r"Pass class_names, or name the score columns after the classes \(prob_cat, prob_dog\); for a "
     r"model, pass class_names=\[…\] \(--class-names\)",
     "Name the classes in their order with --class-names, or name the score columns after the "
     "classes (prob_cat, prob_dog)"),
    # Arguments that the message already translates: trust_pickle=True (--trust-pickle).
    (rf"[a-z_]+={_VALUE}(?: or [a-z_]+={_VALUE})? \((--[^)]+)\)", r"\1"),
    (rf"[a-z_]+={_VALUE}(?:, \([^)]*\))* or \([^)]*\) \((--[^)]+)\)", r"\1"),
    (rf"as [a-z_]+={_VALUE} or (--[a-z-]+)", r"with \1"),
    (r" \(in Python, for estimate: columns=\{[^}]*\}\)", ""),
    (r" \(in Python, [^)]*\)", ""),
    (r"; in Python, [^.]*(?:\.[a-z_]+)?", ""),
    # Arguments for which there is no option.
    (rf", or (?:pass )?prepare={_VALUE}(?:, a function[^.]*)?", f", or {OWN_FUNCTION}"),
    (rf"[Pp]ass prepare={_VALUE}, a function[^.]*", OWN_FUNCTION.capitalize()),
    (r"; as_dataset opens files and folders", ""),
    (r", or use Predictions\.from_probs for arrays", ""),
    (r"use probs \(Predictions\.from_probs; for a model, outputs=\"probs\"\)",
     "use columns prob_… or --prob-columns; for a model, --outputs probs"),
    (r"Pass labelled Predictions, or a History of estimates and accuracies",
     "Give files with a label column, or a table with the columns estimate and truth"),
    (r"Pass labelled Predictions, a pair \(probs, labels\), or a table with a column label; if the "
     r"column has another name, pass columns=\{'label_column': '…'\}",
     "Add a column label to the source, or name the column with --label-column"),
    (r"Pass labels=…, or a list of pairs", "Name the label column with --label-column"),
    (r"Pass the decided classes to Predictions\.from_classes",
     "Give the decided classes in the column pred of a file without scores"),
    (r"or Predictions; got", "or predictions; got"),
    (r"and Predictions contain", "contain"),
    (r"'fit', None or", "'fit', 'none' or"),
    (r"or, in as_model, pass", "or pass"),
    (r"name a layer \(layer=…\) or pass features", "name a layer with --layer"),
    (r"\(layer=…\)", "with --layer"),
    (r"\(size=…\)", "with --size"),
    (r"or pass None for all", "or leave the option out for all"),
    (r"Pass None for all", "Leave the option out for all"),
)  # fmt: skip
_ARGUMENT = re.compile(rf"\b([a-z_]+)=({_VALUE})")


def with_option_names(message: str, options: Collection[str] = ()) -> str:
    """Return a message of the library in terms of the command line.

    `options` are the names of all options, such as ``--replicates``.

    >>> with_option_names("Skip them with skip_bad=True (--skip-bad).")
    'Skip them with --skip-bad.'
    >>> with_option_names("Name it with inputs='…'."), with_option_names('Pass outputs="logits".')
    ('Name it with --inputs.', 'Pass --outputs logits.')
    >>> with_option_names("replicates must be at least 20; got 5.", ["--replicates"])
    '--replicates must be at least 20; got 5.'
    """
    for pattern, replacement in _REPLACEMENTS:
        message = re.sub(pattern, replacement, message)
    message = _ARGUMENT.sub(_as_option, message)
    argument = re.match(r"([a-z_]+) must be\b", message)
    if argument is not None and _option_of(argument[1]) in options:
        message = _option_of(argument[1]) + message[argument.end(1) :]
    return message


def _option_of(argument: str) -> str:
    return OPTION_NAMES.get(argument, f"--{argument.replace('_', '-')}")


def _as_option(match: re.Match[str]) -> str:
    """Return the option for an argument with its value; placeholders are left out."""
    option, value = _option_of(match[1]), match[2]
    is_text = value[0] in "'\""
    value = value[1:-1] if is_text else value.strip("()[]").replace(", ", ",")
    return option if value in ("…", "True", "") else f"{option} {_quoted(value)}"


def _quoted(value: str) -> str:
    """Return a value in quotes if it contains a space, such as the name of a column."""
    return shlex.quote(value) if " " in value else value
