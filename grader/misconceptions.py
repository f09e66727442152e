"""Which known mistake a failure looks like: a failed test is rehearsed on each wrong solution of its problem.

A test asks the student's code for a series of answers until one of them is wrong. Where a wrong solution of ours, asked the
same way, gives those very answers and fails with the same words, its mistake is named. The rehearsal runs in the trusted
process, on solutions that are ours, after a failure and never before one; nothing of the student's is run or trusted.
"""

import copy
import os
import random
import sys
import tempfile
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grader import fragments, protocol
from grader.fragments import Fragment

HERE = Path(__file__).parent
MOST_NAMED = 2  # where more mistakes than that explain a failure, it says too little to name one
MAX_ELEMENTS = 10_000_000  # of what one test's calls are kept: larger answers are not looked at
RTOL, ATOL = 1e-5, 1e-12  # the same formula in another order or dtype; two mistakes lie further apart

Probe = Callable[..., Any]


@dataclass(frozen=True)
class Call:
    """One call that a test made of the student's code, and how it ended: a value, or the name of an exception."""

    probe: Probe
    inputs: dict[str, Any]
    value: Any = None
    raised: str | None = None


class _Other(BaseException):
    """The wrong solution answers otherwise, so it is not this mistake."""


class _NeedsAProcess(_Other):
    """The probe wants a process of its own, which this one cannot give it."""


_need_a_process: set[Probe] = set()  # probes of which that is known


class Rehearsal:
    """Answers a test's calls with a wrong solution, for as long as it answers as the student did.

    Args:
        package: What the probes take for the student's package.
        calls: What the test asked the student's code, and how that ended.
        seed: What the student's global generators were set to before each call.
    """

    def __init__(self, package: types.SimpleNamespace, calls: list[Call], seed: int) -> None:
        self._package = package
        self._left = list(calls)
        self._seed = seed

    def run(self, probe: Probe, inputs: dict[str, Any]) -> Any:
        """What the probe returns, or raises, on the wrong solution; or the end of the rehearsal."""
        if not self._left:
            raise _Other
        asked = self._left.pop(0)
        if probe is not asked.probe or not same(inputs, asked.inputs):
            raise _Other
        random.seed(self._seed)
        np.random.seed(self._seed % 2**32)
        torch.manual_seed(self._seed)
        try:
            value = _as_data(probe(self._package, **copy.deepcopy(inputs)))
        except _NeedsAProcess:
            _need_a_process.add(probe)
            raise
        except Exception as e:
            if type(e).__name__ != asked.raised:
                raise _Other from None
            raise
        if asked.raised or not same(value, asked.value):
            raise _Other
        return value


def named(
    problem_id: str,
    module: str,
    calls: list[Call],
    seed: int,
    repeat: Callable[[Rehearsal], None],
    failure: Exception,
    *,
    among: set[str] | None = None,
) -> list[Fragment]:
    """The known mistakes that explain a failure: those that give the same answers and fail with the same words.

    Args:
        problem_id: The problem.
        module: The module of the assignment that it is in.
        calls: What the failed test asked, and how that ended.
        seed: What the student's global generators were set to before each call.
        repeat: Runs the test again on a rehearsal.
        failure: The test's Mismatch.
        among: Names of the wrong solutions to try; all by default.

    Returns:
        One or two of them; none where none agrees, or too many do to say which it was.
    """
    if not calls or not _tells(calls[-1]) or any(call.probe in _need_a_process for call in calls):
        return []
    agreeing = []
    with _undisturbed():
        for fragment, package in _wrong_solutions(problem_id, module):
            if not fragment.is_tried_on("cpu", ("cpu",)) or (among is not None and fragment.name not in among):
                continue  # what needs a device is nothing for this process
            try:
                repeat(Rehearsal(package, calls, seed))
            except _Other:
                continue
            except Exception as e:
                if type(e) is type(failure) and str(e) == str(failure):
                    agreeing.append(fragment)
            if len(agreeing) > MOST_NAMED:
                return []
    return agreeing


def same(a: Any, b: Any) -> bool:
    """Whether two values of plain data agree, numbers within what another order of the same operations gives."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.shape == b.shape and a.dtype == b.dtype and a.device == b.device and _close(a, b)
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.shape == b.shape and a.dtype == b.dtype and bool(np.array_equal(a, b, equal_nan=a.dtype.kind in "fc"))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if type(a) is float and type(b) is float:
        return _close(torch.tensor(a, dtype=torch.float64), torch.tensor(b, dtype=torch.float64))
    return type(a) is type(b) and bool(a == b)


def _close(a: Tensor, b: Tensor) -> bool:
    if a.device.type == "meta":
        return True
    if not (a.is_floating_point() or a.is_complex()):
        return torch.equal(a, b)
    wide = torch.complex128 if a.is_complex() else torch.float64
    a, b = a.detach().to(wide), b.detach().to(wide)
    largest = float(b[b.isfinite()].abs().max()) if bool(b.isfinite().any()) else 0.0
    return bool(torch.isclose(a, b, rtol=0.0, atol=ATOL * largest + RTOL * largest, equal_nan=True).all())


def _tells(call: Call) -> bool:
    """Whether an answer says something: an exception, None or yes and no say what is missing, not what was done instead."""
    return call.raised is None and _has_numbers(call.value) and _elements([call.inputs, call.value]) <= MAX_ELEMENTS


def _has_numbers(value: Any) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return type(value) in (int, float, Tensor, np.ndarray) or any(map(_has_numbers, inner))


def _elements(value: Any) -> int:
    if isinstance(value, Tensor):
        return value.numel()
    if isinstance(value, np.ndarray):
        return value.size
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return sum(map(_elements, inner))


def _as_data(value: Any) -> Any:
    """A value as it would have come out of the sandbox."""
    _, head, *body = protocol.encode(value)
    return protocol.decode(bytes(head), memoryview(bytearray().join(body)))


@cache
def _wrong_solutions(problem_id: str, module: str) -> list[tuple[Fragment, types.SimpleNamespace]]:
    """Each wrong solution of a problem, as what a probe takes for the student's package."""
    found = []
    for fragment in fragments.load(HERE / "wrong", problem_id):
        reference = (HERE / "reference" / f"{module}.py").read_text(encoding="utf-8")
        loaded = types.ModuleType(f"grader_wrong_{problem_id}_{fragment.name}")
        sys.modules[loaded.__name__] = loaded  # dataclasses look their module up
        exec(compile(fragment.applied_to(reference), f"<{problem_id}/{fragment.name}>", "exec"), loaded.__dict__)
        found.append((fragment, types.SimpleNamespace(**{module: loaded})))
    return found


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Generators, working folder and settings as they were afterwards; nothing may fork, because torch may have threads."""

    def no_process(*arguments: Any) -> Any:
        raise _NeedsAProcess

    states = random.getstate(), np.random.get_state(), torch.get_rng_state(), torch.get_default_dtype()
    folder, grad = os.getcwd(), torch.is_grad_enabled()
    of_processes = {name: getattr(os, name) for name in ("fork", "kill", "_exit")}
    for name in of_processes:
        setattr(os, name, no_process)
    try:
        with tempfile.TemporaryDirectory() as scratch:
            os.chdir(scratch)
            try:
                yield
            finally:
                os.chdir(folder)
    finally:
        for name, function in of_processes.items():
            setattr(os, name, function)
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_rng_state(states[2])
        torch.set_default_dtype(states[3])
        torch.set_grad_enabled(grad)
