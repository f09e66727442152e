"""Read submissions in a process of its own, with limits on its time and memory.

Whatever a stranger's archive or notebook does to the program that reads it, it costs that one
submission. A `SubmissionReader` has a server: a new interpreter that has imported only what reading
needs. It limits itself before each submission. If it has ended, or is large, another one is
started.
"""

import math
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, NoReturn, Self

import msgspec

import grader
from grader.base import limits
from grader.base.errors import GraderFault, SubmissionRefused
from grader.submission import submissions
from grader.submission.submissions import HOW_TO_HAND_IN, Submission
from kit.handing_in import EVERY_COURSE, Accepted
from kit.text import one_line

CPU_SECONDS = 10  # the slowest archives and notebooks within the other limits take about 2
MEMORY_BYTES = 512 * 2**20  # on top of the server's; the largest within the limits take half of it
WAIT_SECONDS = 60  # of an ordinary clock
KEPT_BYTES = 128 * 2**20  # of memory: a server that has grown by more reads no other submission
# The folders of the grader, of the kit and of msgspec; the server has no other packages.
PACKAGES = [str(Path(one.__path__[0]).parent) for one in (grader, msgspec)]
START = "import sys; sys.path += sys.argv[1:]; from grader.submission.reader import serve; serve()"
NO_MEMORY = 3  # the exit code of a server whose memory was not enough


class _ReadRequest(msgspec.Struct, array_like=True):
    """What to read. Paths and names are bytes, because they need not be UTF-8."""

    path: bytes
    accepted: Accepted
    parts: dict[bytes, bytes]
    follow: bool


class _ReadAnswer(msgspec.Struct, array_like=True):
    """A submission, or why there is none: by the student's fault, or by the grader's."""

    submission: Submission | None = None
    refused: str = ""
    failed: str = ""
    is_last: bool = False  # whether the server ends with it


class SubmissionReader:
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
        follow: bool = True,
    ) -> Submission:
        """Read a submission, as `submissions.read` does.

        Raises:
            SubmissionRefused: It cannot be graded, or reading it exceeds a limit; the text says
                why.
            GraderFault: It could not be read, through no fault of the student.
        """
        names = {os.fsencode(name): os.fsencode(part) for name, part in (parts or {}).items()}
        request = _ReadRequest(os.fsencode(path), accepted, names, follow)
        answer = self._answer(msgspec.msgpack.encode(request))
        if answer.refused:
            raise SubmissionRefused(answer.refused)
        if answer.submission is None:
            raise GraderFault(f"the submission could not be read: {answer.failed}")
        return answer.submission

    def close(self) -> None:
        """End the server."""
        self._ended(kill=True)

    def _start(self) -> subprocess.Popen[bytes]:
        self._server = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", START, *PACKAGES],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,  # Ctrl-C is for the grader, which then ends it
        )
        return self._server

    def _answer(self, request: bytes) -> _ReadAnswer:
        """The server's answer, or what its end means."""
        server = self._server or self._start()
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            _send(server.stdin, request)
            answer = msgspec.msgpack.decode(_received(server.stdout), type=_ReadAnswer)
        except (OSError, msgspec.DecodeError):
            return _why(self._ended())
        if answer.is_last:
            self._ended()
        return answer

    def _ended(self, *, kill: bool = False) -> int:
        """Wait for the server's end; return its exit code, or minus the number of a signal."""
        if (server := self._server) is None:
            return 0
        self._server = None
        if kill:
            server.kill()
        with suppress(OSError), server:  # what it has not received yet
            pass
        return server.wait()


def _why(ended: int) -> _ReadAnswer:
    """What the end of a server means, by its exit code or minus a signal's number."""
    if ended == -signal.SIGXCPU:
        much = f"{CPU_SECONDS} seconds of processor time"
    elif ended == NO_MEMORY:
        much = f"{MEMORY_BYTES >> 20} MiB of memory"
    elif ended == -signal.SIGALRM:
        return _ReadAnswer(failed=f"it took more than {WAIT_SECONDS} seconds; this machine is busy")
    else:
        return _ReadAnswer(failed=f"the process that reads submissions ended with {ended}")
    return _ReadAnswer(refused=f"reading the submission takes more than {much}; {HOW_TO_HAND_IN}")


# --- in the server --------------------------------------------------------------------------------


def serve() -> NoReturn:
    """Answer requests until the grader has gone."""
    ended, start = 0, limits.mapped_bytes()
    try:
        with open(0, "rb") as requests, open(1, "wb") as answers:
            while request := _received(requests):
                _limit()
                answer = _read(msgspec.msgpack.decode(request, type=_ReadRequest))
                answer.is_last = limits.mapped_bytes() - start > KEPT_BYTES
                _send(answers, msgspec.msgpack.encode(answer))
                signal.setitimer(signal.ITIMER_REAL, 0)
    except MemoryError:
        ended = NO_MEMORY
    os._exit(ended)


def _limit() -> None:
    """Limit this process; the kernel ends it by a signal, except that it only denies memory."""
    limits.lower(resource.RLIMIT_AS, limits.mapped_bytes() + MEMORY_BYTES)
    limits.lower(resource.RLIMIT_CPU, math.ceil(time.process_time()) + CPU_SECONDS)
    limits.lower(resource.RLIMIT_CORE, 0)
    signal.setitimer(signal.ITIMER_REAL, WAIT_SECONDS)


def _read(request: _ReadRequest) -> _ReadAnswer:
    parts = {os.fsdecode(name): Path(os.fsdecode(part)) for name, part in request.parts.items()}
    try:
        path = Path(os.fsdecode(request.path))
        read = submissions.read(path, request.accepted, parts=parts, follow=request.follow)
        return _ReadAnswer(read)
    except SubmissionRefused as e:
        return _ReadAnswer(refused=_sendable(str(e)))
    except MemoryError:
        raise
    except Exception as e:
        return _ReadAnswer(failed=one_line(f"{type(e).__name__}: {e}", 300))


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
