"""Create and open the SQLite file of a store, and translate its errors."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from oodometer.core.errors import InputError

STORE_FILE = "store.sqlite"
# Version of the file format. It is incremented when older versions of oodometer cannot read files
# that this version writes.
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

# SQLite errors that are caused by the disk, by permissions or by another process, and do not mean
# that the file is corrupt.
_ENVIRONMENT_ERRORS = (
    "SQLITE_FULL",
    "SQLITE_IOERR",
    "SQLITE_READONLY",
    "SQLITE_CANTOPEN",
    "SQLITE_BUSY",
)


def open_read_only(folder: Path) -> sqlite3.Connection:
    """Open the store file of a folder read-only; another process may write at the same time."""
    path = folder / STORE_FILE
    if not path.is_file():
        raise _missing_store_error(folder)
    with translate_sqlite_errors(folder):
        try:
            return _check_database(_connect(path, "mode=ro"), folder, may_be_new=False)
        except sqlite3.OperationalError:
            if os.access(folder, os.W_OK) or Path(f"{path}-wal").exists():
                raise
            # SQLite creates another file in the folder even for reading, which fails on a read-only
            # medium. Nobody can write there, so the file can be opened as immutable.
            return _check_database(_connect(path, "immutable=1"), folder, may_be_new=False)


def _connect(path: Path, query: str) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(str(path.absolute()))}?{query}", uri=True)


def open_for_writing(folder: Path) -> sqlite3.Connection:
    """Open or create the store file of a folder; the caller must hold the lock of the store."""
    with translate_sqlite_errors(folder):
        connection = sqlite3.connect(folder / STORE_FILE)
        _check_database(connection, folder, may_be_new=True)
        try:
            # With a write-ahead log (WAL), readers and the writer do not wait for each other.
            connection.execute("PRAGMA journal_mode = WAL")
            # With NORMAL, killing the process loses nothing, and the file is never corrupted. A
            # power failure may lose the last tasks, which are then repeated. FULL would force a
            # write to disk after every task.
            connection.execute("PRAGMA synchronous = NORMAL")
            _create_tables(connection)
        except BaseException:
            connection.close()
            raise
        return connection


@contextmanager
def translate_sqlite_errors(folder: Path) -> Iterator[None]:
    """Replace errors of SQLite by an InputError with the cause and advice."""
    try:
        yield
    except sqlite3.Error as error:
        reason = str(error).rstrip(".")
        if getattr(error, "sqlite_errorname", "").startswith(_ENVIRONMENT_ERRORS):
            advice = (
                "Free disk space or change the permissions, and run again; stored results are kept."
            )
        else:
            advice = "It is corrupt or not a store: remove it, or choose another folder."
        raise InputError(
            f"Cannot use the store {str(folder / STORE_FILE)!r}: {reason}. {advice}"
        ) from error


def _check_database(
    connection: sqlite3.Connection, folder: Path, *, may_be_new: bool
) -> sqlite3.Connection:
    """Raise if the file is not a store of this format, without changing the file."""
    try:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        if tables or not may_be_new:
            _check_format(connection, folder, tables)
    except BaseException:
        connection.close()
        raise
    return connection


def _check_format(connection: sqlite3.Connection, folder: Path, tables: set[str]) -> None:
    if not tables:  # the writer was killed before it created the tables
        raise _missing_store_error(folder)
    row = None
    if "meta" in tables:
        query = "SELECT value FROM meta WHERE key = 'oodometer store'"
        row = connection.execute(query).fetchone()
    if row is None:
        raise InputError(
            f"{str(folder / STORE_FILE)!r} is a database of another program. Choose another folder."
        )
    if row[0] != str(STORE_FORMAT):
        raise InputError(
            f"The store {str(folder)!r} has format {row[0]}; expected {STORE_FORMAT}. It was written "
            "by another version of oodometer: use that version, or choose another folder."
        )


def _create_tables(connection: sqlite3.Connection) -> None:
    """Create all tables in one transaction, so that a killed process leaves all tables or none."""
    if connection.execute("SELECT name FROM sqlite_master").fetchone() is None:
        connection.execute("BEGIN IMMEDIATE")
        for statement in SCHEMA_STATEMENTS:
            connection.execute(statement)
        connection.commit()


def _missing_store_error(folder: Path) -> InputError:
    return InputError(
        f"There is no store in {str(folder)!r}. Run the study first: `oodometer study run SPEC`."
    )
