"""Read submissions in processes of their own, with limits on their time and memory.

Whatever a stranger's archive or notebook does to the program that reads it, it costs that one
submission. A `Reader` has a server: a new interpreter that has imported only what reading needs.
For each submission, the server makes a copy of itself by `fork`, which is cheap and safe because
the server is small and has one thread. The copy limits itself, reads, and ends.
"""

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, NoReturn, Self

import msgspec

import grader
from grader.base.errors import GraderFault, SubmissionRefused
from grader.submission import submissions
from grader.submission.submissions import HOW_TO_HAND_IN, Submission
from kit.handing_in import EVERY_COURSE, Accepted
from kit.text import one_line

CPU_SECONDS = 10  # the slowest archives and notebooks within the other limits take about 2
MEMORY_BYTES = 512 * 2**20  # on top of the server's; the largest within the limits take half of it
WAIT_SECONDS = 60  # of an ordinary clock
# The folders of the grader, of the kit and of msgspec; the server has no other packages.
PACKAGES = [str(Path(one.__path__[0]).parent) for one in (grader, msgspec)]
START = "import sys; sys.path += sys.argv[1:]; from grader.submission.reader import serve; serve()"
NO_MEMORY, UNKNOWN = 3, 4  # exit codes of a copy


class _Request(msgspec.Struct, array_like=True):
    """What to read. Paths and names are bytes, because they need not be UTF-8."""

    path: bytes
    accepted: Accepted
    parts: dict[bytes, bytes]


class _Answer(msgspec.Struct, array_like=True):
    """A submission, or why there is none: by the student's fault, or by the grader's."""

    submission: Submission | None = None
    refused: str = ""
    failed: str = ""


class Reader:
    """Reads submissions one after the other; use it in a `with` block, or call `close`."""

    def __init__(self) -> None:
        self._server: subprocess.Popen[bytes] | None = None
        self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(
        self,
        path: Path,
        accepted: Accepted = EVERY_COURSE,
        *,
        parts: Mapping[str, Path] | None = None,
    ) -> Submission:
        """Read a submission, as `submissions.read` does.

        Raises:
            SubmissionRefused: It cannot be graded, or reading it exceeds a limit; the text says
                why.
            GraderFault: It could not be read, through no fault of the student.
        """
        names = {os.fsencode(name): os.fsencode(part) for name, part in (parts or {}).items()}
        request = _Request(os.fsencode(path), accepted, names)
        answer = self._answer(msgspec.msgpack.encode(request))
        if answer.refused:
            raise SubmissionRefused(answer.refused)
        if answer.submission is None:
            raise GraderFault(f"the submission could not be read: {answer.failed}")
        return answer.submission

    def close(self) -> None:
        """End the server."""
        if self._server is not None:
            self._server.kill()
            with suppress(OSError), self._server:  # what it has not received yet
                pass
            self._server = None

    def _start(self) -> subprocess.Popen[bytes]:
        self._server = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", START, *PACKAGES],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        return self._server

    def _answer(self, request: bytes) -> _Answer:
        """The server's answer; a server that has ended is replaced for the next submission."""
        server = self._server or self._start()
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            _send(server.stdin, request)
            return msgspec.msgpack.decode(_received(server.stdout), type=_Answer)
        except (OSError, msgspec.DecodeError):
            self.close()
            return _Answer(failed="the process that reads submissions has ended")


# --- in the server --------------------------------------------------------------------------------


def serve() -> None:
    """Answer requests until the grader has gone."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with open(0, "rb") as requests, open(1, "wb") as answers:
        while request := _received(requests):
            _send(answers, _answer_of_a_copy(request))


def _answer_of_a_copy(request: bytes) -> bytes:
    ours, theirs = os.pipe()
    if (child := os.fork()) == 0:
        _be_the_copy(request, theirs)
    os.close(theirs)
    with open(ours, "rb") as pipe:
        answer = pipe.read()
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return answer if ended == 0 else msgspec.msgpack.encode(_why(ended))


def _why(ended: int) -> _Answer:
    """What the end of a copy means: the code with which it exited, or minus a signal's number."""
    if ended == -signal.SIGXCPU:
        much = f"{CPU_SECONDS} seconds of processor time"
    elif ended == NO_MEMORY:
        much = f"{MEMORY_BYTES >> 20} MiB of memory"
    elif ended == -signal.SIGALRM:
        return _Answer(failed=f"it took more than {WAIT_SECONDS} seconds; this machine is busy")
    else:
        return _Answer(failed=f"the process that read it ended with {ended}")
    return _Answer(refused=f"reading the submission takes more than {much}; {HOW_TO_HAND_IN}")


def _be_the_copy(request: bytes, pipe: int) -> NoReturn:
    ended = UNKNOWN
    try:
        _limit()
        answer = msgspec.msgpack.encode(_read(msgspec.msgpack.decode(request, type=_Request)))
        with open(pipe, "wb") as file:
            file.write(answer)
        ended = 0
    except MemoryError:
        ended = NO_MEMORY
    finally:
        os._exit(ended)


def _limit() -> None:
    """Limit this process; the kernel ends it by a signal, except that it only denies memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    _lower(resource.RLIMIT_AS, pages * resource.getpagesize() + MEMORY_BYTES)
    _lower(resource.RLIMIT_CPU, CPU_SECONDS)
    _lower(resource.RLIMIT_CORE, 0)
    signal.setitimer(signal.ITIMER_REAL, WAIT_SECONDS)


def _lower(limit: int, to: int) -> None:
    _, most = resource.getrlimit(limit)
    resource.setrlimit(limit, (to if most == resource.RLIM_INFINITY else min(to, most), most))


def _read(request: _Request) -> _Answer:
    parts = {os.fsdecode(name): Path(os.fsdecode(part)) for name, part in request.parts.items()}
    try:
        path = Path(os.fsdecode(request.path))
        return _Answer(submissions.read(path, request.accepted, parts=parts))
    except SubmissionRefused as e:
        return _Answer(refused=_sendable(str(e)))
    except MemoryError:
        raise
    except Exception as e:
        return _Answer(failed=one_line(f"{type(e).__name__}: {e}", 300))


def _sendable(text: str) -> str:
    """A text that may quote a path that is not UTF-8."""
    return text.encode(errors="backslashreplace").decode()


# --- on both sides --------------------------------------------------------------------------------


def _send(file: IO[bytes], message: bytes) -> None:
    file.write(len(message).to_bytes(8, "big") + message)
    file.flush()


def _received(file: IO[bytes]) -> bytes:
    """The next message; empty if the other side has gone."""
    return file.read(int.from_bytes(file.read(8), "big"))
