"""Explain to the student why a test ended before it answered.

Each function returns a fault and raises nothing. Tracebacks are those that Python itself printed in
the child when a signal killed it or its time ran out.
"""

import re
import signal
from typing import Any

from grader.base.errors import (
    Crashed,
    GraderFault,
    NotAttempted,
    OutOfMemory,
    Raised,
    StudentFault,
    TimedOut,
)
from grader.course.courses import Limits
from grader.sandbox.gpus import Gpu
from grader.wire.zygote_messages import MAX_FILES, Ending
from kit.safe_text import message_of, printable, slow_import


def asleep(tracebacks: str) -> TimedOut:
    """The test stopped doing anything, and nothing could wake it."""
    why = "stopped doing anything: it sleeps, or waits for something that never happens"
    if module := _imported(tracebacks):
        return TimedOut(f"the import of {module} {why}", module)
    return TimedOut(f"it {why}", _where_it_was(tracebacks))


def late(limits: Limits, tracebacks: str, *, is_cut: bool) -> TimedOut:
    """The test ran out of wall time.

    Args:
        limits: What the test may use.
        tracebacks: What Python printed in the child.
        is_cut: Whether the problem's budget had less wall time left than the limit of a test.
    """
    limit = f"{limits.wall_seconds:g} s"
    why = f"no answer within {limit}, the limit of a test"
    if is_cut:
        limit = "the time for all tests of its problem"
        why = f"no answer before {limit} was used up"
    return _out_of_time(why, limit, tracebacks)


def _out_of_time(why: str, limit: str, tracebacks: str) -> TimedOut:
    """The test ended for this reason, or because the import of a module takes longer than that."""
    if module := _imported(tracebacks):
        return TimedOut(slow_import(module, limit), module)
    return TimedOut(why, _where_it_was(tracebacks))


def too_late_to_begin(at: str = "", *, cpu_seconds: float = 0, wall_seconds: float = 0) -> TimedOut:
    """The tests of the problem, of which the first was `at` a place, had used up their time."""
    used = f"{cpu_seconds:.0f} s of processor time" if cpu_seconds else f"{wall_seconds:.0f} s"
    first = f"{at} ran out of time first: " if at else ""
    why = f"{first}the tests of its problem had used up their {used} before this test began"
    return TimedOut(why)


def disk_is_full() -> GraderFault:
    """The test found a full disk, and has filled it neither with names nor without."""
    return GraderFault(
        "the disk that tests write their files to is full: free some space, or set TMPDIR to a "
        "folder on another disk"
    )


def took_too_much(limits: Limits, gpu: Gpu, tracebacks: str) -> OutOfMemory:
    """The test exceeded its GPU memory limit, by the driver's count, which it cannot falsify."""
    why = f"it took more than {_device_memory(limits, gpu)}, the limit of a test"
    return OutOfMemory(why, _where_it_was(tracebacks))


def death(
    ending: Ending, limits: Limits, tracebacks: str, *, cpu_limit: float, is_isolated: bool
) -> StudentFault | GraderFault:
    """Why a child closed its channel.

    Args:
        ending: How the child ended, as the zygote reports it.
        limits: What the test may use.
        tracebacks: What Python printed in the child.
        cpu_limit: The CPU seconds of the test, possibly reduced by its problem's budget.
        is_isolated: Whether the test could not send SIGKILL; see `seccomp.of_tests`.
    """
    where = _where_it_was(tracebacks)
    if ending.breach == "memory":
        return _too_much_memory(limits, where)
    if ending.breach == "files":
        return Crashed(f"it made more than {MAX_FILES} files, the limit of a test", where)
    if ending.breach == "scratch":
        return _too_many_bytes(limits, where)
    if ending.breach == "uncountable":
        return Crashed("it made files whose size cannot be found out", where)
    if ending.breach == "processor":
        return _used_the_processor(limits, cpu_limit, tracebacks, "the processes that it started")
    if ending.signal == signal.SIGXCPU or ending.cpu_seconds >= cpu_limit:
        return _used_the_processor(limits, cpu_limit, tracebacks)
    if ending.was_alive:
        return Crashed("it closed its connection to the grader", where)
    if ending.signal == signal.SIGKILL and is_isolated:
        return _killed_from_outside(ending, limits, where)
    if ending.signal is not None:
        name = signal.strsignal(ending.signal) or "an unknown signal"
        why = f"its process was ended by signal {ending.signal} ({name.lower()})"
        return Crashed(why, _where_it_crashed(tracebacks))
    if ending.exit is None:
        return GraderFault("the sandbox has lost a test's process")
    return Crashed(f"its process exited with code {ending.exit} before it answered")


def exception(error: dict[str, Any], limits: Limits, gpu: Gpu | None) -> StudentFault:
    """Turn an exception of the student's code into a fault.

    Args:
        error: The child's description of the exception. Reading it may raise anything, because the
            child is not trusted.
        limits: What the test may use.
        gpu: The GPU of the sandbox, or None.
    """
    kinds, text, where = list(error["kinds"]), str(error["text"]), error["where"]
    line = str(where[3]).strip() if where else ""
    at = place(where)
    if is_a_stub(kinds, line):
        return NotAttempted(text, at, is_direct=error["frames"] == 1)
    if gpu and re.search(r"CUDA out of memory|CUDA error: out of memory|STATUS_ALLOC_FAILED", text):
        why = f"it asked for more than {_device_memory(limits, gpu)}, the limit of a test"
        return OutOfMemory(why, at)
    if "MemoryError" in kinds or re.search(r"can't allocate memory|not enough memory", text):
        why = f"it asked for more than {_size(limits.memory_bytes)}, the limit of a test"
        return OutOfMemory(why, at)
    if error["errno"] in ("EFBIG", "ENOSPC"):
        return _too_many_bytes(limits, at)
    if error["errno"] == "EAGAIN" or "can't start new thread" in text:
        why = f"it started more than {limits.processes} processes, the limit of a test"
        return Crashed(why, at)
    return Raised(kinds, str(error["type"]), message_of(text), at)


def is_a_stub(kinds: list[str], line: str) -> bool:
    """Whether an exception comes from a stub: a NotImplementedError from a `raise` statement.

    torch raises NotImplementedError too, but then the student's line contains no `raise`.

    Args:
        kinds: The names of the exception's class and of its base classes.
        line: The line of source that raised the exception, or that called the code that did.
    """
    return "NotImplementedError" in kinds and re.search(r"\braise\b", line) is not None


def place(where: list[Any] | None) -> str | None:
    """A place in the student's code as `file:line in function`."""
    if not where:
        return None
    file, line, function, _ = where
    inside = f" in {function}" if function and function != "<module>" else ""
    return printable(f"{file}:{line}{inside}", 200)


def _used_the_processor(
    limits: Limits, cpu_limit: float, tracebacks: str, who: str = "it"
) -> TimedOut:
    limit = f"{cpu_limit} s of processor time"
    why = f"{who} used {limit}, the limit of a test"
    if cpu_limit < limits.cpu_seconds:
        limit = "the processor time that was left for the tests of its problem"
        why = f"{who} used up {limit}"
    return _out_of_time(why, limit, tracebacks)


def _too_much_memory(limits: Limits, where: str | None) -> OutOfMemory:
    why = f"its processes together took more than {_size(limits.memory_bytes)}"
    return OutOfMemory(why, where)


def _too_many_bytes(limits: Limits, where: str | None) -> Crashed:
    why = f"it wrote more than {_size(limits.file_bytes)} of files, the limit of a test"
    return Crashed(why, where)


def _killed_from_outside(
    ending: Ending, limits: Limits, where: str | None
) -> StudentFault | GraderFault:
    """Judge a child that neither its zygote nor the submission can have killed.

    Most likely the kernel did, because memory ran out. If the test exceeded its own limit between
    two of the zygote's checks, the test is at fault, and if not, this machine. The filter decides
    this alone, not the kernel's count of such kills, which includes other people's processes. So
    this errs in favour of the student: if code found a way to send SIGKILL after all, its points
    would stay pending, and a person would look at it.
    """
    if ending.memory_bytes > limits.memory_bytes:
        return _too_much_memory(limits, where)
    return GraderFault(
        "a test's process was killed from outside while it used "
        f"{_size(ending.memory_bytes)} of its {_size(limits.memory_bytes)}: most likely, this "
        "machine or the container that the grader runs in has too little memory for everything "
        "that runs on it"
    )


def _where_it_crashed(tracebacks: str) -> str | None:
    """The line that Python was executing when a signal killed the process."""
    _, found, last = tracebacks.rpartition("Fatal Python error")
    places = _places(last) if found else []
    return "{}:{} in {}".format(*places[0]) if places else None


def _where_it_was(tracebacks: str) -> str | None:
    """The function that was running when time ran out.

    The line number is left out, because in a loop it would differ from run to run.
    """
    places = _places(tracebacks)
    return "{0} in {2}".format(*places[-1]) if places else None


def _imported(tracebacks: str) -> str:
    """The student's module that was being imported, innermost; "" if none was.

    Python's own importer runs its lines. Of a module that is run as a program, something else does.
    """
    found = re.search(
        r'/submission/(assignment/[^"\n]+\.py)", line \d+ in <module>\n'
        r' +File "<frozen importlib\._bootstrap>"',
        tracebacks,
    )
    return found[1] if found else ""


def _places(traceback: str) -> list[tuple[str, str, str]]:
    """The student's frames in a traceback, innermost first: file, line and function."""
    return re.findall(
        r'File "[^"\n]*?/submission/(assignment/[^"\n]+\.py)", line (\d+) in (\S+)', traceback
    )


def _device_memory(limits: Limits, gpu: Gpu) -> str:
    """How much GPU memory a test may use, in words."""
    return f"{_size(limits.device_memory_bytes)} of the memory of the GPU ({gpu.name})"


def _size(count: int) -> str:
    """`2 GiB` for 2**31."""
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= size:
            return f"{count / size:g} {unit}"
    return f"{count} bytes"
