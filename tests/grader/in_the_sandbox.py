"""Ask functions of a student's module in a real sandbox, and programs that several files ask."""

import platform
import textwrap
from contextlib import closing, contextmanager

import msgspec
import pytest

from grader.base.errors import Raised, StudentFault
from grader.course import courses
from grader.sandbox import levels, seccomp
from grader.sandbox.sandbox import Sandbox
from grader.sandbox.session import Session
from kit.student import call

COURSE = courses.load()
MIB = 2**20
LIMITS = msgspec.structs.replace(
    COURSE.limits, wall_seconds=120.0, cpu_seconds=60, memory_bytes=512 * MIB
)

# A course without torch, for tests of what a box does whatever its zygote imports. Torch takes a
# zygote ten times as long to start.
PLAIN = courses.load(COURSE.root / "examples" / "plain_course")


WHY_NOT = levels.LEVELS["landlock"].why_not()
NEEDS_LANDLOCK = pytest.mark.skipif(bool(WHY_NOT), reason=f"the second level: {WHY_NOT}")
LEVELS = ["bubblewrap", pytest.param("landlock", marks=NEEDS_LANDLOCK)]


def plain_box(isolation, *, scratch_bytes=MIB):
    """A new sandbox whose zygote does not import torch."""
    return Sandbox(
        PLAIN.tests,
        isolation=isolation,
        scratch_bytes=scratch_bytes,
        packages=PLAIN.packages,
        preload=PLAIN.imported_first,
    )


def warm(test):
    """Mark a test that uses the warm sandbox of `conftest.py`: all of them share a process."""
    return pytest.mark.slow(pytest.mark.xdist_group("sandbox")(test))


@contextmanager
def session(sandbox, source, **options):
    """A session whose module is assignment/m.py; the options are those of a session, and limits."""
    sources = {"assignment/m.py": textwrap.dedent(source).encode()}
    limits = {name: options.pop(name) for name in LIMITS.__struct_fields__ if name in options}
    limited = msgspec.structs.replace(LIMITS, **limits)
    with closing(Session(sandbox, sources, limited, **options)) as made:
        yield made


def ask(made, *args, function="f"):
    """Return the result of a function of that module."""
    return made.run(call, {"module": "m", "function": function, "args": args, "kwargs": {}})


def answer(sandbox, source, *args, **options):
    """Return the result of f in a student's module, in a session of its own."""
    with session(sandbox, source, **options) as made:
        return ask(made, *args)


def fault(sandbox, kind, source, *args, **options):
    """Return the fault that ends a call of f, as (status, text, where)."""
    with session(sandbox, source, **options) as made, pytest.raises(kind) as caught:
        ask(made, *args)
    assert kind in (type(caught.value), Raised, StudentFault)
    return caught.value.status, str(caught.value), caught.value.where


LOOK = (
    "import os\ndef f():\n"
    "    return sorted(os.listdir('/tmp')), len([p for p in os.listdir('/proc') if p.isdigit()])\n"
)


MACHINE = seccomp.MACHINES[platform.machine()]
SYSCALLS = """
    import ctypes, os
    libc = ctypes.CDLL(None, use_errno=True)
    def f(calls):
        errors = []
        for number, *arguments in calls:
            ctypes.set_errno(0)
            result = libc.syscall(number, *map(ctypes.c_long, arguments))
            errors.append(ctypes.get_errno() if result == -1 else 0)
        return errors
"""
