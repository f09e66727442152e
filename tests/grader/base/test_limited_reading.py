"""Whatever a text does to the process that reads it, the other texts are read."""

import os
import signal
import sys

from grader.base import limited_reading
from grader.base.limited_reading import LimitedReader, Unread

grown = []


def read(text):
    """Read a text, or do what it says."""
    if text == "loop":
        while True:
            pass
    if text == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if text == "exit":
        os._exit(7)
    if text == "fill":
        return len(bytearray(2**31))
    if text == "raise":
        raise KeyError(text)
    if text == "half":
        raise ValueError("\ud83d")
    if text == "grow":
        grown.append(bytearray(2 * limited_reading.KEPT_BYTES))
    if text == "process":
        return str(os.getpid())
    return text.upper()


BAD = {
    "loop": "takes more than 0.25 seconds of processor time",
    "crash": "ended the process that read it (SIGSEGV)",
    "exit": "ended the process that read it (code 7)",
    "fill": "takes more than 1024 MiB of memory",
    "raise": "cannot be read: KeyError: 'raise'",
    "half": r"cannot be read: ValueError: \ud83d",
}


def test_a_text_costs_only_itself():
    """Each bad text has its reason, and a new process reads the next one, however long it is."""
    with LimitedReader(read, seconds=0.25, kind=str) as reader:
        for text in ("a", *BAD, "b", "loop", "x" * 5_000_000, "c"):
            found = reader.found_in(text)
            said = found.reason if isinstance(found, Unread) else found
            assert BAD.get(text, text.upper()) == said


def test_a_process_that_has_grown_reads_no_other_text():
    """Its memory would count as that of each text."""
    with LimitedReader(read, kind=str) as reader:
        one, same, _, other = map(reader.found_in, ["process", "process", "grow", "process"])
        assert one == same != other
        assert isinstance(other, str)


def test_nothing_is_imported_from_the_current_folder(tmp_path, monkeypatch):
    """It may be a stranger's. Ctrl-C there is for the command, which ends its processes."""
    (tmp_path / "msgspec.py").write_text("1 / 0")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", str(tmp_path), *sys.path])
    with LimitedReader(read, kind=str) as reader:
        assert "A" == reader.found_in("a")
        process = reader._process.process.pid
        assert process == os.getpgid(process)
