"""Store of a monitor: one SQLite file in a folder.

Every change is one transaction with a rollback journal and `synchronous = FULL`: a killed process or a
power failure loses nothing that was committed, and nothing is counted twice. A write-ahead log would
need two further files and does not work on network drives, and the monitor has one short
transaction per batch. Writers wait for each other.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from oodometer.core.errors import InputError
from oodometer.monitor.e_detector import DetectorSettings, DetectorState

STORE_FILE = "monitor.sqlite"
# Names of streams; those of segments have the prefix.
ALL_ROWS = "all rows"
AUDIT = "audited labels"
SEGMENT_PREFIX = "segment "
# Version of the tables. It is incremented when older versions cannot read what this version writes.
STORE_FORMAT = 1
# Seconds to wait for another process that writes.
WRITE_TIMEOUT = 30.0
TABLES = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE blobs (name TEXT PRIMARY KEY, data BLOB NOT NULL)",
    """CREATE TABLE streams (name TEXT PRIMARY KEY, settings TEXT NOT NULL, state TEXT NOT NULL,
    baseline TEXT NOT NULL)""",
    """CREATE TABLE batches (number INTEGER PRIMARY KEY AUTOINCREMENT, hash TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL, time TEXT, arrived TEXT NOT NULL, n INTEGER NOT NULL, total REAL NOT NULL,
    squares REAL NOT NULL, estimate REAL NOT NULL, low REAL, high REAL, log_evidence REAL NOT NULL,
    estimates TEXT NOT NULL, sums BLOB, sample BLOB, audit_rows INTEGER NOT NULL,
    forgotten INTEGER NOT NULL DEFAULT 0)""",
    """CREATE TABLE segments (batch INTEGER, name TEXT, n INTEGER NOT NULL, total REAL NOT NULL,
    log_evidence REAL, PRIMARY KEY (batch, name)) WITHOUT ROWID""",
    """CREATE TABLE alarms (number INTEGER PRIMARY KEY AUTOINCREMENT, stream TEXT NOT NULL,
    batch INTEGER NOT NULL, run INTEGER NOT NULL, log_evidence REAL NOT NULL, raised TEXT NOT NULL,
    acknowledged TEXT)""",
    """CREATE TABLE labels (batch INTEGER, row TEXT, correct INTEGER NOT NULL, score REAL NOT NULL,
    audited INTEGER NOT NULL, arrived TEXT NOT NULL, PRIMARY KEY (batch, row)) WITHOUT ROWID""",
    """CREATE TABLE label_estimates (batch INTEGER PRIMARY KEY, n INTEGER NOT NULL,
    value REAL NOT NULL, low REAL NOT NULL, high REAL NOT NULL, method TEXT NOT NULL,
    arrived TEXT NOT NULL)""",
    """CREATE TABLE audits (batch INTEGER, row TEXT, issued TEXT NOT NULL,
    PRIMARY KEY (batch, row)) WITHOUT ROWID""",
    # In the order of time; batches without a time follow in the order of arrival.
    "CREATE INDEX batches_by_time ON batches (time IS NULL, time, number)",
    "CREATE INDEX segments_by_name ON segments (name, batch)",
    f"INSERT INTO meta VALUES ('oodometer monitor', '{STORE_FORMAT}')",
)


@dataclass(frozen=True)
class Stream:
    """Detector of one stream with its settings, its state and its baseline."""

    name: str
    settings: DetectorSettings
    state: DetectorState
    baseline: dict[str, Any]


class MonitorStore:
    """Tables of a monitor, opened for reading and writing."""

    def __init__(self, folder: Path, *, timeout: float = WRITE_TIMEOUT) -> None:
        self.folder = folder
        self.timeout = timeout
        path = folder / STORE_FILE
        if not path.is_file():
            raise _missing_monitor(folder)
        with translate_errors(folder, timeout):
            self.connection = _connect(path, timeout)
            _check_format(self.connection, folder)

    @classmethod
    def create(cls, folder: Path, contents: Any, *, timeout: float = WRITE_TIMEOUT) -> MonitorStore:
        """Create the tables of a new monitor and call `contents(connection)`, in one transaction."""
        path = folder / STORE_FILE
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"Cannot create the folder {str(folder)!r}: {error}.") from error
        with translate_errors(folder, timeout):
            connection = _connect(path, timeout, mode="rwc")
            try:
                connection.execute("BEGIN IMMEDIATE")
                if connection.execute("SELECT 1 FROM sqlite_master").fetchone() is not None:
                    raise InputError(
                        f"There is already a monitor in {str(folder)!r}. Add batches to it, or "
                        "choose another folder."
                    )
                for statement in TABLES:
                    connection.execute(statement)
                contents(connection)
                connection.execute("COMMIT")
            finally:
                connection.close()
        return cls(folder, timeout=timeout)

    def close(self) -> None:
        """Close the file."""
        self.connection.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection as the only writer; commit, or undo everything if the block raises."""
        with translate_errors(self.folder, self.timeout):
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield self.connection
            except BaseException:
                self.connection.execute("ROLLBACK")
                raise
            self.connection.execute("COMMIT")

    def rows(self, query: str, *values: Any) -> list[sqlite3.Row]:
        """Return the rows of a query."""
        with translate_errors(self.folder, self.timeout):
            return self.connection.execute(query, values).fetchall()

    def row(self, query: str, *values: Any) -> sqlite3.Row | None:
        """Return the first row of a query; None if there is none."""
        found = self.rows(f"{query} LIMIT 1", *values)
        return found[0] if found else None

    def count(self, query: str, *values: Any) -> int:
        """Return the number of a query such as SELECT count(*)."""
        found = self.row(query, *values)
        return 0 if found is None or found[0] is None else int(found[0])

    def setting(self, key: str) -> Any:
        """Return a stored setting."""
        found = self.row("SELECT value FROM meta WHERE key = ?", key)
        return None if found is None else json.loads(found[0])

    def blob(self, name: str) -> bytes:
        """Return stored bytes."""
        found = self.row("SELECT data FROM blobs WHERE name = ?", name)
        if found is None:
            raise InputError(f"The monitor in {str(self.folder)!r} has no {name}.")
        return bytes(found[0])

    def streams(self) -> dict[str, Stream]:
        """Return all streams by name."""
        return {row["name"]: _stream(row) for row in self.rows("SELECT * FROM streams")}


def insert_stream(connection: sqlite3.Connection, stream: Stream) -> None:
    """Write a new stream."""
    values = stream.name, *map(json.dumps, (asdict(stream.settings), asdict(stream.state)))
    statement = "INSERT INTO streams (name, settings, state, baseline) VALUES (?, ?, ?, ?)"
    connection.execute(statement, (*values, json.dumps(stream.baseline)))


def write_state(connection: sqlite3.Connection, name: str, state: DetectorState) -> None:
    """Replace the state of a stream."""
    statement = "UPDATE streams SET state = ? WHERE name = ?"
    connection.execute(statement, (json.dumps(asdict(state)), name))


def write_bet(
    connection: sqlite3.Connection, stream: Stream, state: DetectorState, batch: int
) -> None:
    """Write the new state of a stream, and an alarm if it was raised now."""
    write_state(connection, stream.name, state)
    if state.is_alarm and not stream.state.is_alarm:
        connection.execute(
            """INSERT INTO alarms (stream, batch, run, log_evidence, raised)
            VALUES (?, ?, ?, ?, ?)""",
            (stream.name, batch, state.run, state.log_evidence, now()),
        )


def now() -> str:
    """Return the present time in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _stream(row: sqlite3.Row) -> Stream:
    state = json.loads(row["state"])
    state["log_wealth"] = tuple(state["log_wealth"])
    settings = DetectorSettings(**json.loads(row["settings"]))
    return Stream(row["name"], settings, DetectorState(**state), json.loads(row["baseline"]))


def _connect(path: Path, timeout: float, mode: str = "rw") -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"file:{quote(str(path.absolute()))}?mode={mode}",
        uri=True,
        timeout=timeout,
        isolation_level=None,
    )
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def _check_format(connection: sqlite3.Connection, folder: Path) -> None:
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    if not tables:  # the process was killed before the tables were committed
        connection.close()
        raise _missing_monitor(folder)
    row = None
    if "meta" in tables:
        query = "SELECT value FROM meta WHERE key = 'oodometer monitor'"
        row = connection.execute(query).fetchone()
    if row is None or row[0] != str(STORE_FORMAT):
        connection.close()
        found = "no format" if row is None else f"format {row[0]}"
        raise InputError(
            f"{str(folder / STORE_FILE)!r} has {found}; expected format {STORE_FORMAT} of a monitor. "
            "Use the version of oodometer that wrote it, or choose another folder."
        )


def _missing_monitor(folder: Path) -> InputError:
    return InputError(
        f"There is no monitor in {str(folder)!r}. Create it first: `oodometer monitor init "
        f"{folder} --source FILE`."
    )


@contextmanager
def translate_errors(folder: Path, timeout: float) -> Iterator[None]:
    """Replace errors of SQLite by an InputError with the cause and advice."""
    try:
        yield
    except sqlite3.Error as error:
        path = str(folder / STORE_FILE)
        if getattr(error, "sqlite_errorname", "").startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            raise InputError(
                f"Another process writes to the monitor {str(folder)!r}, and did not finish within "
                f"{timeout:g} seconds. Nothing was changed; run the command again."
            ) from error
        raise InputError(
            f"Cannot use {path!r}: {str(error).rstrip('.')}. Check the free disk space and the "
            "permissions; committed batches are kept."
        ) from error
