"""The SQLite file of a store: its tables, how it is opened, and what can be wrong with it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from oodometer.core.errors import InputError

STORE_FILE = "store.sqlite"
# Raised when an older version could not read what this one writes.
STORE_FORMAT = 1
SCHEMA_STATEMENTS = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    """CREATE TABLE models (key TEXT PRIMARY KEY, name TEXT NOT NULL, architecture TEXT NOT NULL,
    trained_on TEXT NOT NULL, recipe TEXT NOT NULL, facts TEXT NOT NULL)""",
    """CREATE TABLE datasets (key TEXT PRIMARY KEY, name TEXT NOT NULL, n INTEGER NOT NULL,
    labels TEXT NOT NULL, classes TEXT NOT NULL)""",
    """CREATE TABLE predictions (model TEXT, dataset TEXT, array TEXT NOT NULL, form TEXT NOT NULL,
    k INTEGER NOT NULL, temperature REAL NOT NULL, class_names TEXT,
    PRIMARY KEY (model, dataset))""",
    """CREATE TABLE results (model TEXT, source TEXT, dataset TEXT, tested_on TEXT NOT NULL,
    measure TEXT, settings TEXT, value REAL, low REAL, high REAL, reason TEXT, facts TEXT NOT NULL,
    seconds REAL NOT NULL, PRIMARY KEY (model, source, dataset, measure, settings))""",
    """CREATE TABLE failures (model TEXT, dataset TEXT, reason TEXT NOT NULL, trace TEXT NOT NULL,
    PRIMARY KEY (model, dataset))""",
    f"INSERT INTO meta VALUES ('oodometer store', '{STORE_FORMAT}')",
)

# What a disk, a right or another process is to blame for, and not the file.
_ENVIRONMENT_ERRORS = (
    "SQLITE_FULL",
    "SQLITE_IOERR",
    "SQLITE_READONLY",
    "SQLITE_CANTOPEN",
    "SQLITE_BUSY",
)


def open_read_only(folder: Path) -> sqlite3.Connection:
    """The file of a folder, which can't be changed; a writer may go on meanwhile."""
    path = folder / STORE_FILE
    if not path.is_file():
        raise _missing_store_error(folder)
    with translate_sqlite_errors(folder):
        try:
            return _check_database(_connect(path, "mode=ro"), folder, may_be_new=False)
        except sqlite3.OperationalError:
            if os.access(folder, os.W_OK) or Path(f"{path}-wal").exists():
                raise
            # SQLite would make a file beside it even to read; where nobody can, nobody writes.
            return _check_database(_connect(path, "immutable=1"), folder, may_be_new=False)


def _connect(path: Path, how: str) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(str(path.absolute()))}?{how}", uri=True)


def open_for_writing(folder: Path) -> sqlite3.Connection:
    """The file of a folder, made where there is none; only who holds the lock may."""
    with translate_sqlite_errors(folder):
        connection = sqlite3.connect(folder / STORE_FILE)
        _check_database(connection, folder, may_be_new=True)
        try:
            # Readers don't wait for the writer, nor the writer for readers.
            connection.execute("PRAGMA journal_mode = WAL")
            # Safe against whatever kills the process, and never broken; only a machine that loses
            # power may lose the last tasks, which are then done again. FULL costs a sync a task.
            connection.execute("PRAGMA synchronous = NORMAL")
            _create_tables(connection)
        except BaseException:
            connection.close()
            raise
        return connection


@contextmanager
def translate_sqlite_errors(folder: Path) -> Iterator[None]:
    """What SQLite complains of, in one line of ours."""
    try:
        yield
    except sqlite3.Error as error:
        reason = str(error).rstrip(".")
        if getattr(error, "sqlite_errorname", "").startswith(_ENVIRONMENT_ERRORS):
            cure = "Make room or allow writing there, and run again; what was stored stays."
        else:
            cure = "It is broken, or no store at all: remove it, or give another folder."
        raise InputError(
            f"The store {str(folder / STORE_FILE)!r} can't be used: {reason}. {cure}"
        ) from error


def _check_database(
    connection: sqlite3.Connection, folder: Path, *, may_be_new: bool
) -> sqlite3.Connection:
    """Refuse, unchanged, what is no store of this format."""
    try:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        if tables or not may_be_new:
            _check_format(connection, folder, tables)
    except BaseException:
        connection.close()
        raise
    return connection


def _check_format(connection: sqlite3.Connection, folder: Path, tables: set[str]) -> None:
    found = None
    if not tables:  # made, and killed before the tables were
        raise _missing_store_error(folder)
    if "meta" in tables:
        query = "SELECT value FROM meta WHERE key = 'oodometer store'"
        found = connection.execute(query).fetchone()
    if found is None:
        raise InputError(
            f"{str(folder / STORE_FILE)!r} is a database of something else. Give another folder."
        )
    if found[0] != str(STORE_FORMAT):
        raise InputError(
            f"The store {str(folder)!r} has the format {found[0]}, and {STORE_FORMAT} was expected. It "
            "was written by another version: use that one, or give another folder."
        )


def _create_tables(connection: sqlite3.Connection) -> None:
    """All tables in one step, so that a kill leaves none or all."""
    if connection.execute("SELECT name FROM sqlite_master").fetchone() is None:
        connection.execute("BEGIN IMMEDIATE")
        for statement in SCHEMA_STATEMENTS:
            connection.execute(statement)
        connection.commit()


def _missing_store_error(folder: Path) -> InputError:
    return InputError(
        f"There is no store in {str(folder)!r}. Run the study first: oodometer study run."
    )
