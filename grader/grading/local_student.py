"""Run one of our own solutions in this process instead of a sandbox.

This is faster than a sandbox, but gives no isolation at all. Use it for the variations of the
reference that `derived_trials` makes and for drafts of tests, never for code from others. A probe's
result is encoded and decoded as if it came out of a sandbox, so that a test sees no difference.
"""

import importlib
import linecache
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any

from grader.base.errors import NotAttempted, Raised, StudentFault, TimedOut
from grader.base.judging_time import ending_after
from grader.course.courses import Limits
from grader.grading.undo_settings import restored
from grader.sandbox import reply_checks
from grader.sandbox.gpus import Gpu
from grader.sandbox.levels import Isolation
from grader.sandbox.reply_checks import Probe
from grader.sandbox.timeout_and_crash import is_a_stub
from grader.wire import protocol
from kit import forbidden_in_source
from kit.student import StudentPackage, seed_generators_of_the_cpu


class LocalBox:
    """Makes sources importable as the package `assignment`; takes the place of a `Sandbox`."""

    isolation: Isolation = "none"
    gpu: Gpu | None = None
    gpu_works = False

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="grader-")
        self._sources: dict[str, bytes] | None = None
        self.scratch = Path(self._folder.name, "scratch")

    @property
    def facts(self) -> dict[str, Any]:
        """The facts that a sandbox would report about itself."""
        torch = sys.modules.get("torch")
        version = {"torch": torch.__version__} if torch else {}
        return {"python": sys.version.split()[0], **version}

    def renew(self) -> None:
        """Nothing: there is no process."""

    require_free_gpu = renew  # there is no GPU either

    def turn(self, say: Callable[[str], None]) -> AbstractContextManager[None]:
        """Nothing to wait for: there is no GPU."""
        return nullcontext()

    def close(self) -> None:
        """Remove everything that this box created."""
        self._forget()
        self._folder.cleanup()

    def load(self, sources: dict[str, bytes]) -> None:
        """Install these sources in place of the previous package, and empty the scratch folder."""
        if not self.scratch.is_dir() or os.listdir(self.scratch):
            shutil.rmtree(self.scratch, ignore_errors=True)
            self.scratch.mkdir()
        if sources is self._sources and sys.path[0] == self._folder.name:
            return
        self._forget()
        sys.path.insert(0, self._folder.name)  # before the course's own package of that name
        package = Path(self._folder.name, "assignment")
        shutil.rmtree(package, ignore_errors=True)
        for path, content in {"assignment/__init__.py": b"", **sources}.items():
            file = Path(self._folder.name, path)
            # Without parents, so that a folder that `close` has removed is not made again.
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(content)
        importlib.invalidate_caches()
        linecache.clearcache()  # the last package's lines had the same file names
        self._sources = sources

    def _forget(self) -> None:
        sys.path[:] = [path for path in sys.path if path != self._folder.name]
        for name in [m for m in sys.modules if m == "assignment" or m.startswith("assignment.")]:
            del sys.modules[name]


class LocalSession:
    """The calls of tests to the solution in a `LocalBox`; takes the place of a `Session`."""

    is_shared = False
    answered_bytes = 0  # our own solutions give no large answers

    def __init__(
        self,
        box: LocalBox,
        sources: dict[str, bytes],
        limits: Limits | None = None,
        *,
        seed: int = 0,
        **_: Any,
    ) -> None:
        self._box, self._sources, self._seed = box, sources, seed
        self._cpu_seconds = limits.cpu_seconds if limits else 0
        self._started = False

    def close(self) -> None:
        """Nothing: there is no process to end, and our own solutions give no large answers."""

    begin_again = forget_answers = close

    def begin_test(self, seed: int) -> None:
        """Begin another test: set its seed."""
        self._seed, self._started = seed, False

    def run(self, probe: Probe, inputs: dict[str, Any]) -> Any:
        """Return what a probe returns for these inputs.

        Raises:
            StudentFault: The probe raised an exception, or took too long.
        """
        if not self._started:
            self._box.load(self._sources)
            self._started = True
        home = os.getcwd()
        os.chdir(self._box.scratch)
        try:
            with ending_after(self._cpu_seconds):
                return answer(StudentPackage("assignment"), probe, inputs, self._seed)
        finally:
            with suppress(OSError):
                os.chdir(home)

    def inspect(self, rules: dict[str, list[dict[str, Any]]]) -> Any:
        """Return the findings in each source, by path; see kit/forbidden_in_source.py."""
        return {
            path: forbidden_in_source.read(self._sources[path], those)
            for path, those in rules.items()
        }

    def look_at_device(self, name: str) -> Any:
        """Nothing is looked at: the tests themselves run in this process."""
        return {"computes": True}


def answer(student: Any, probe: Probe, inputs: dict[str, Any], seed: int) -> Any:
    """Return what a probe returns for one of our solutions, as it would come out of the sandbox.

    The global generators get the seed before the call. The inputs are not modified.

    Raises:
        StudentFault: The probe raised an exception; a sandbox would report it in the same way.
    """
    seed_generators_of_the_cpu(seed)
    try:
        with restored():
            value = probe(student, **as_data(inputs, views=True))
    except TimedOut:
        raise
    except Exception as e:
        kinds = [t.__name__ for t in type(e).__mro__ if t.__module__ == "builtins"]
        if is_a_stub(kinds, _line_of(e)):
            raise NotAttempted(str(e)) from None
        raise Raised(kinds, type(e).__name__, str(e), None) from None
    try:
        reply = as_data(value)
    except protocol.ProtocolError as e:
        raise StudentFault(f"what it returned cannot be sent: {e}") from None
    reply_checks.check(probe, reply)
    return reply


def _line_of(error: BaseException) -> str:
    """The line of source that raised an exception."""
    traceback = error.__traceback__
    while traceback and traceback.tb_next:
        traceback = traceback.tb_next
    if traceback is None:
        return ""
    return linecache.getline(traceback.tb_frame.f_code.co_filename, traceback.tb_lineno)


def as_data(value: Any, *, views: bool = False) -> Any:
    """Encode and decode a value, as if it had been sent to the other side."""
    _, head, *body = protocol.encode(value, views=views)
    return protocol.decode(bytes(head), memoryview(bytearray().join(body)))
