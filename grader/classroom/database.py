"""A gradebook's file: its tables and their versions, the lock of its writer, and SQLite's errors.

`gradebook` describes the contents of the tables.
"""

import fcntl
import getpass
import os
import socket
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import IO

import msgspec

from grader.base.errors import MachineFault, UsageError
from kit.safe_text import one_line

# Of what a field holds, packed or unpacked: a student's source, or a result.
MOST_BYTES = 64 * 2**20
APPLICATION = 0x67726472  # "grdr", in the header of the file
# Migration number n, counted from 1, brings a file to version n.
MIGRATIONS = [
    """
    CREATE TABLE student (
        id TEXT PRIMARY KEY, name TEXT NOT NULL, email TEXT NOT NULL, section TEXT NOT NULL,
        columns TEXT NOT NULL, listed INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE content (sha256 BLOB PRIMARY KEY, compressed BLOB NOT NULL) STRICT;
    CREATE TABLE source (
        sources TEXT NOT NULL, path TEXT NOT NULL,
        content BLOB NOT NULL REFERENCES content(sha256),
        PRIMARY KEY (sources, path)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE attempt (
        id INTEGER PRIMARY KEY, student TEXT NOT NULL REFERENCES student(id),
        identity TEXT NOT NULL, submitted_at TEXT NOT NULL, late INTEGER NOT NULL,
        number INTEGER NOT NULL, name TEXT NOT NULL, sources TEXT, ignored TEXT NOT NULL,
        refused TEXT NOT NULL, added_at TEXT NOT NULL
    ) STRICT;
    CREATE INDEX attempt_of ON attempt (student);
    CREATE INDEX attempt_with ON attempt (sources);
    CREATE TABLE fact (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
    CREATE TABLE setup (
        id INTEGER PRIMARY KEY, sha256 TEXT NOT NULL UNIQUE, device TEXT NOT NULL,
        facts TEXT NOT NULL
    ) STRICT;
    CREATE TABLE applied (
        id INTEGER PRIMARY KEY, device TEXT NOT NULL, setup INTEGER NOT NULL REFERENCES setup(id),
        who TEXT NOT NULL, why TEXT NOT NULL, at TEXT NOT NULL
    ) STRICT;
    CREATE TABLE grade (
        id INTEGER PRIMARY KEY, sources TEXT NOT NULL, setup INTEGER NOT NULL REFERENCES setup(id),
        score REAL NOT NULL, max_score REAL NOT NULL, pending REAL NOT NULL, fault TEXT NOT NULL,
        seconds REAL NOT NULL, at TEXT NOT NULL, result BLOB NOT NULL, UNIQUE (sources, setup)
    ) STRICT;
    CREATE INDEX grade_at_a_glance ON grade (
        setup, sources, score, max_score, pending, fault  -- so that a table skips the results
    );
    CREATE TABLE score (
        grade INTEGER NOT NULL REFERENCES grade(id), problem TEXT NOT NULL, score REAL NOT NULL,
        max_score REAL NOT NULL, pending REAL NOT NULL, status TEXT NOT NULL,
        PRIMARY KEY (grade, problem)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE override (
        id INTEGER PRIMARY KEY, student TEXT NOT NULL REFERENCES student(id),
        problem TEXT NOT NULL, points REAL, who TEXT NOT NULL, reason TEXT NOT NULL,
        at TEXT NOT NULL
    ) STRICT;
    CREATE TABLE extension (
        id INTEGER PRIMARY KEY, student TEXT NOT NULL REFERENCES student(id), until TEXT NOT NULL,
        who TEXT NOT NULL, reason TEXT NOT NULL, at TEXT NOT NULL
    ) STRICT;
    """,
    """
    CREATE TABLE comment (
        id INTEGER PRIMARY KEY, student TEXT NOT NULL REFERENCES student(id),
        attempt INTEGER REFERENCES attempt(id), problem TEXT NOT NULL, name TEXT NOT NULL,
        text TEXT NOT NULL, removes INTEGER REFERENCES comment(id), who TEXT NOT NULL,
        at TEXT NOT NULL
    ) STRICT;
    CREATE TABLE request (
        id INTEGER PRIMARY KEY, student TEXT NOT NULL REFERENCES student(id),
        attempt INTEGER NOT NULL REFERENCES attempt(id),
        setup INTEGER NOT NULL REFERENCES setup(id), problem TEXT NOT NULL, test TEXT NOT NULL,
        evidence TEXT NOT NULL, text TEXT NOT NULL, who TEXT NOT NULL, at TEXT NOT NULL
    ) STRICT;
    CREATE TABLE answer (
        id INTEGER PRIMARY KEY, request INTEGER NOT NULL REFERENCES request(id),
        accepted INTEGER NOT NULL, points REAL, reason TEXT NOT NULL, who TEXT NOT NULL,
        at TEXT NOT NULL
    ) STRICT;
    CREATE TABLE push (
        id INTEGER PRIMARY KEY, place TEXT NOT NULL, student TEXT NOT NULL REFERENCES student(id),
        points REAL NOT NULL, comment TEXT NOT NULL, event TEXT NOT NULL, who TEXT NOT NULL,
        at TEXT NOT NULL
    ) STRICT;
    """,
    """
    CREATE TABLE change (
        id INTEGER PRIMARY KEY, kind TEXT NOT NULL, student TEXT NOT NULL REFERENCES student(id),
        becomes TEXT NOT NULL, name TEXT NOT NULL, undoes INTEGER REFERENCES change(id),
        reason TEXT NOT NULL, who TEXT NOT NULL, at TEXT NOT NULL
    ) STRICT;
    """,
]
# What is true, in SQL, of a time, a number of points and the columns of a roster that a command has
# stored. An edited file may have any others, which the commands could not compute with.
TIME = "{0} BETWEEN '0002' AND '9999' AND strftime('%Y-%m-%dT%H:%M:%S+00:00', {0}, '+0 days') = {0}"
POINTS = "{0} IS NULL OR abs({0}) < 1e9"
COLUMNS = """
    CASE WHEN json_valid({0}) THEN json_type({0}) = 'object'
    AND NOT EXISTS (SELECT * FROM json_each({0}) WHERE type != 'text') END
"""
CHECKS = {
    COLUMNS: ["student.columns"],
    TIME: ["override.at", "extension.until", "push.at"],
    f"{{0}} = '' OR {TIME}": ["attempt.submitted_at"],
    POINTS: [
        *("grade.score", "grade.max_score", "grade.pending", "score.score", "score.max_score"),
        *("score.pending", "override.points", "answer.points", "push.points"),
    ],
}
REFERRING = ("applied", "request")  # tables that are useless without the rows that they refer to


class DamagedBook(Exception):
    """A gradebook has contents that no command has stored; the message says which."""


@contextmanager
def to_read(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a gradebook's file for reading, even while another process writes it.

    The file stays as it is. If an older grader wrote it, a copy in memory has today's tables; the
    next command that writes upgrades the file.

    Raises:
        UsageError: It cannot be read, or is not a gradebook.
    """
    _require_file(path)
    with _told(path), closing(_connected(path, "ro")) as database:
        version = _version(path, database)
        if not _schema(database):
            raise UsageError(
                f"{path} is empty: it is a copy made while a command wrote; copy {path.name}-wal "
                "from the same folder, too, or copy both again"
            )
        if version == len(MIGRATIONS):
            _check_values(database)
            yield database
            return
        with closing(sqlite3.connect(":memory:")) as copy:
            database.backup(copy)
            copy.row_factory = sqlite3.Row
            _migrate(copy, version)
            _check_values(copy)
            yield copy


@contextmanager
def to_write(path: Path, *, create: bool) -> Iterator[sqlite3.Connection]:
    """Open a gradebook's file as its only writer, with the tables of this version.

    Raises:
        UsageError: It is not a gradebook.
        MachineFault: Another process writes it, or it cannot be written.
    """
    if not create:
        _require_file(path)
    if not path.absolute().parent.is_dir():
        raise UsageError(f"{path}: there is no folder {path.parent}")
    with _locked(path), _told(path):
        is_new = create and not path.exists()
        database = _connected(path, "rwc" if create else "rw")
        try:
            _prepare(path, database)
            yield database
        finally:
            with suppress(sqlite3.Error):  # if the disk is full, the next writer does this
                database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            database.close()
            if is_new and path.stat().st_size == 0:  # on a full disk
                path.unlink()


def _require_file(path: Path) -> None:
    if path.is_dir():
        raise UsageError(f"{path} is a folder: expected the gradebook, a file of `grader batch`")
    if not os.path.isfile(path):
        raise UsageError(f"{path}: there is no such gradebook; `grader batch` creates one")


def _connected(path: Path, mode: str) -> sqlite3.Connection:
    name = path.absolute().as_uri()
    database = sqlite3.connect(f"{name}?mode={mode}", uri=True, timeout=10.0)
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_BYTES)
    try:
        database.execute("SELECT * FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        database.close()
        # In a read-only folder, SQLite makes no index of its log; without a log, the file is whole.
        if mode != "ro" or Path(f"{path}-wal").exists():
            raise
        database = sqlite3.connect(f"{name}?mode=ro&immutable=1", uri=True)
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_BYTES)
    except BaseException:
        database.close()
        raise
    database.row_factory = sqlite3.Row
    return database


def _prepare(path: Path, database: sqlite3.Connection) -> None:
    is_new = not database.execute("SELECT * FROM sqlite_master").fetchone()
    if is_new:
        database.execute(f"PRAGMA application_id = {APPLICATION}")
    version = _version(path, database)
    (health,) = database.execute("PRAGMA quick_check(1)").fetchone()
    if health != "ok":
        raise sqlite3.DatabaseError(health)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    # After each transaction, the file alone is complete, so that a copy of it is, too.
    database.execute("PRAGMA wal_autocheckpoint = 1")
    _migrate(database, version)
    _check_values(database)
    database.execute("PRAGMA foreign_keys = ON")


def _check_values(database: sqlite3.Connection) -> None:
    """Check the values that commands compute with; somebody may have edited the file."""
    for check, places in CHECKS.items():
        for place in places:
            table, _, name = place.partition(".")
            query = f"SELECT {name} FROM {table} WHERE ({check.format(name)}) IS NOT TRUE"
            if row := database.execute(query).fetchone():
                raise DamagedBook(f"{table} has {one_line(repr(row[0]), 100)} as {name}")
    for table in REFERRING:
        if database.execute(f"PRAGMA foreign_key_check({table})").fetchone():
            raise DamagedBook(f"{table} refers to a row that is not there")


def _migrate(database: sqlite3.Connection, version: int) -> None:
    for number, script in enumerate(MIGRATIONS[version:], start=version + 1):
        database.executescript(f"BEGIN; {script}; PRAGMA user_version = {number}; COMMIT")


def _version(path: Path, database: sqlite3.Connection) -> int:
    """The version of a gradebook, whose schema is checked because it may be a stranger's."""
    (application,) = database.execute("PRAGMA application_id").fetchone()
    if application != APPLICATION:
        raise UsageError(
            f"{path} is an SQLite file, but not a gradebook: expected one of `grader batch`"
        )
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if version > len(MIGRATIONS):
        raise UsageError(
            f"{path} was written by a newer grader (version {version} of the format; this grader "
            f"knows {len(MIGRATIONS)})"
        )
    if _schema(database) != _schema_of(version):
        raise UsageError(f"{path}: its tables are not those of a gradebook; use a backup of it")
    return int(version)


def _schema(database: sqlite3.Connection) -> set[tuple[str, ...]]:
    """All that a database defines, by whatever name."""
    query = "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE sql IS NOT NULL"
    return {tuple(map(str, row)) for row in database.execute(query)}


@cache
def _schema_of(version: int) -> set[tuple[str, ...]]:
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(";".join(MIGRATIONS[:version]))
        return _schema(database)


def unpacked(compressed: bytes, most: int = MOST_BYTES) -> bytes:
    """What a field holds, unpacked; a zlib.error if it is damaged or has more bytes."""
    inflate = zlib.decompressobj()
    content = inflate.decompress(compressed, most + 1)
    if not inflate.eof or len(content) > most:
        raise zlib.error("cut off, or too large")
    return content


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Report an SQLite error in one sentence, as a fault of the machine if it is one."""
    try:
        yield
    except DamagedBook as e:
        raise UsageError(f"{path}: it is damaged ({e}); use a backup of it") from None
    except (zlib.error, msgspec.MsgspecError):
        raise UsageError(f"{path}: it is damaged; use a backup of it") from None
    except sqlite3.Error as e:
        said = str(e)
        of_machine = {
            "database or disk is full": "there is no space left; everything written before is kept",
            "attempt to write a readonly database": "it is read-only",
            "unable to open database file": "it cannot be opened",
            "database is locked": "another program has locked it",
            "disk I/O error": "the disk cannot be written or read",
        }
        if said in of_machine:
            raise MachineFault(f"{path}: {of_machine[said]}") from None
        sentence = {
            "file is not a database": "expected a gradebook of `grader batch`, found another file",
            "database disk image is malformed": "it is damaged; use a backup of it",
            "string or blob too big": f"it holds more than {MOST_BYTES >> 20} MiB in one field",
        }.get(said, said)
        raise UsageError(f"{path}: {sentence}") from None


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Be the only writer; the kernel releases the lock when the process exits, even by a signal."""
    beside = Path(f"{path}.lock")
    try:
        file: IO[str] = beside.open("a+")
    except OSError as e:
        raise MachineFault(f"{path} cannot be written: {beside.name}: {e.strerror}") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = one_line(file.read(300), 300) or "another process"
            raise MachineFault(
                f"{path} is being written by {holder}; wait until it exits"
            ) from None
        except OSError as e:
            raise MachineFault(f"{path} cannot be locked: {e.strerror}") from None
        me = f"process {os.getpid()} of {user()} on {socket.gethostname()} since {now()}"
        with suppress(OSError):  # on a full disk, the lock holds without a name
            os.ftruncate(file.fileno(), 0)
            os.write(file.fileno(), me.encode())
        yield
        with suppress(OSError):
            os.ftruncate(file.fileno(), 0)


def user() -> str:
    """The user name of whoever runs this program, to store with a decision."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()}"


def now() -> str:
    """The current time in UTC, as the gradebook stores it."""
    return datetime.now(UTC).isoformat(timespec="seconds")
