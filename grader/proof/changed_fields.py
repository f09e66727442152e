"""Right answers with another value in one field, wherever one probe reports that field.

A field that no test looks at is dead weight, or a test was forgotten. `validate` changes each field
that the probes of a problem's hidden tests report, one at a time, and a test has to fail.

A test that loops over an answer judges nothing if the answer is empty. So each list and dict in an
answer is also emptied, and cut by its last part. If it is the whole answer, each test that gets it
has to fail.
"""

import ast
import contextlib
import importlib
import itertools
import math
import os
import re
import sys
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FunctionType, NoneType, UnionType
from typing import Any

from grader.course import courses
from grader.course.courses import Course
from grader.grading.grade import tests_of
from grader.grading.grading_job import Opens
from grader.grading.local_student import LocalBox, LocalSession, as_data
from grader.proof.trial_kinds import Judged
from grader.sandbox.reply_checks import Probe, promised_by
from kit.loaded_libraries import is_array, is_tensor

EVERY = "*"  # every element of a list, or every value of a dict
_places = itertools.count()
Keys = tuple[str, ...]  # the keys that lead to a field, such as ("steps", "*", "loss")


def another_value(old: Any) -> Any:
    """Another value of the same type, and in a tensor or a list, other values in every place.

    None can be a value of any type, so each of the changes makes another type of it.
    """
    if isinstance(old, bool):
        return not old
    if isinstance(old, (int, float, complex)):
        return 10**9 * (old + 1) if old == old else 0.5  # beyond the bounds that tests have
    if isinstance(old, str):
        return old + "?"
    if isinstance(old, bytes):
        return old + b"?"
    if type(old).__module__ == "torch" and type(old).__name__ == "dtype":
        torch = sys.modules["torch"]
        return torch.int16 if old != torch.int16 else torch.int32
    if is_tensor(old):
        return _doubled(old)
    if is_array(old):
        return ~old if old.dtype == bool else (2 * old + 1).astype(old.dtype)
    if isinstance(old, dict):
        return {key: another_value(part) for key, part in old.items()}
    return type(old)(map(another_value, old)) if isinstance(old, (list, tuple)) else "?"


def _doubled(x: Any) -> Any:
    """2x + 1 in the same dtype, for a tensor; bools are inverted."""
    import torch

    if x.dtype is torch.bool:
        return ~x
    real = torch.float64 if x.is_floating_point() else torch.int64
    # Some dtypes have no arithmetic of their own.
    return (2 * x.to(torch.complex128 if x.is_complex() else real) + 1).to(x.dtype)


def another_shape(old: Any) -> Any:
    """A value of the same type that differs in something else: a shape and a dtype, or a length."""
    torch = sys.modules.get("torch")
    if old is None:
        return torch.ones(2) if torch else [1.0, 1.0]
    if torch and is_tensor(old):
        dtype = torch.int16 if old.is_floating_point() else torch.half
        return torch.zeros(2, *old.shape, dtype=dtype)
    if is_array(old):
        dtype = "int16" if old.dtype.kind == "f" else "float16"
        return sys.modules["numpy"].zeros((2, *old.shape), dtype)
    if isinstance(old, (int, float, complex)):
        return -old - 1 if not math.isnan(abs(old)) else 0.25
    if isinstance(old, (list, tuple)):
        return type(old)([*old, *old, 7])
    return type(old)() if isinstance(old, (str, bytes, dict)) else old


def nothing(old: Any) -> Any:
    """None, or a number in its place."""
    return 7 if old is None else None


def half_of_them(old: Any) -> Any:
    """Another value in half of the places, in the pattern of Thue and Morse.

    The pattern has no period, so two answers of the same length hardly change alike.
    """
    return old if next(_places).bit_count() % 2 else another_value(old)


def emptied(old: Any) -> Any:
    """An empty list or dict; an empty one, or any other value, as it is."""
    return type(old)() if isinstance(old, (list, dict)) and old else old


def without_last(old: Any) -> Any:
    """A list or dict without its last part; an empty one, or any other value, as it is."""
    if isinstance(old, dict) and old:
        return {key: old[key] for key in [*old][:-1]}
    return old[:-1] if isinstance(old, list) and old else old


Change = Callable[[Any], Any]
# A test that only compares two places, perhaps of two answers, notices no change of both; so the
# last of the changes leaves some places as they are.
CHANGES: tuple[Change, ...] = (another_value, another_shape, nothing, half_of_them)
CUTS: tuple[Change, ...] = (emptied, without_last)
# The lists in the answers of kit.student's probes, which report whatever a function returns.
LISTS_OF_KIT: dict[str, Keys] = {"call_each": (), "call_and_keep_inputs": ("inputs",)}


@dataclass
class ChangedField:
    """Makes sessions whose answers have another value in one field of one probe."""

    probe: str  # the name of the probe
    keys: Keys  # the keys that lead to the field
    change: Change  # one of CHANGES or CUTS
    # The tests that got an answer in which the field was changed.
    tests: set[str] = field(default_factory=set)

    @property
    def name(self) -> str:
        """The name of the trial, such as "steps.*.loss" or "steps emptied"."""
        cut = f" {self.change.__name__}" if self.change in CUTS else ""
        return ".".join((self.probe, *self.keys)) + cut.replace("_", " ")

    @property
    def is_whole(self) -> bool:
        """Whether the whole answer is cut, so that each of these tests has to fail."""
        return self.change in CUTS and not self.keys

    def applied(self, old: Any) -> Any:
        """What stands in the field instead; the running test is noted if it differs."""
        new = self.change(old)
        if new is not old:
            # pytest's name for it, such as "tests/hidden/relu/test_hidden.py::test_relu[0] (call)"
            self.tests.add(re.split(r"[\[ ]", os.environ["PYTEST_CURRENT_TEST"].split("::")[-1])[0])
        return new

    def __call__(
        self, box: LocalBox, sources: dict[str, bytes], *_: Any, **options: Any
    ) -> LocalSession:
        """A session with a solution that runs in the process of the tests."""
        global _places
        _places = itertools.count()
        return _ChangingSession(box, sources, changed=self, seed=options.get("seed", 0))


class _ChangingSession(LocalSession):
    def __init__(
        self, box: LocalBox, sources: dict[str, bytes], *, changed: ChangedField, seed: int
    ) -> None:
        super().__init__(box, sources, seed=seed)
        self._changed = changed

    def run(self, probe: Probe, inputs: dict[str, Any]) -> Any:
        """Return what a probe returns for these inputs, with another value in the field."""
        value = super().run(probe, inputs)
        if probe.__name__ != self._changed.probe:
            return value
        grows = self._changed.change in CHANGES
        changed = with_another(value, self._changed.keys, self._changed.applied, grows=grows)
        changed = as_data(changed)
        # a sandbox would refuse an answer of another type before a test looks at it.
        return changed if promised_by(probe)(changed) else value


def with_another(value: Any, keys: tuple[Any, ...], change: Change, *, grows: bool = True) -> Any:
    """A copy of an answer whose field is changed, if the answer has this field.

    Args:
        grows: Whether an empty list or dict on the way gets a part.
    """
    if not keys:
        return change(value)
    first, rest = keys[0], keys[1:]
    if isinstance(value, dict):
        return {
            key: with_another(part, rest, change, grows=grows) if first in (EVERY, key) else part
            for key, part in (value or ({"?": None} if grows else {})).items()
        }
    if isinstance(value, (list, tuple)):
        return type(value)(
            with_another(part, rest, change, grows=grows) if first in (EVERY, str(place)) else part
            for place, part in enumerate(value or [None] * grows)
        )
    return value


def is_never_sent(session: Opens) -> bool:
    """Whether no test has sent the probe whose answers these sessions change.

    Some probes are sent only when another answer was wrong.
    """
    return isinstance(session, ChangedField) and not session.tests


def looked_at(judged: Judged, session: Opens) -> Judged:
    """The same, with what is known of the answers that these sessions changed."""
    assert isinstance(session, ChangedField)
    failed = {test.id for test in judged.lost}
    blind = tuple(sorted(session.tests - failed)) if session.is_whole else ()
    return replace(judged, is_never_sent=not session.tests, blind=blind)


def of(course: Course, hidden_test: Path) -> Iterator[tuple[str, Keys, tuple[Change, ...]]]:
    """Yield each field that the probes of a hidden test report, with the changes to try.

    Each is the probe's name, the keys, and changes of which one has to fail a test. A function that
    the tests call themselves is not a probe there.
    """
    tree = courses.tree_of(hidden_test)
    yield from _of_kit(tree)
    for module, name in sorted(set(_passed(tree))):
        hints: dict[str, Any] = {}
        # The reference fails, too, if the probes cannot be imported.
        with tests_of(course), contextlib.suppress(Exception):
            probe = getattr(importlib.import_module(module), name)
            hints = typing.get_type_hints(probe) if isinstance(probe, FunctionType) else {}
        for keys, changes in _fields(hints.get("return", NoneType)):
            yield name, keys, changes


def _passed(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The modules and the names of the probes that a file names and does not call itself."""
    imported = {
        alias.asname or alias.name: alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "tests.probes"
        for alias in node.names
    }
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if id(node) in called:
            continue
        if isinstance(node, ast.Name) and node.id in imported:
            yield "tests.probes", imported[node.id]
        if isinstance(node, ast.Attribute) and (module := imported.get(ast.unparse(node.value))):
            yield f"tests.probes.{module}", node.attr


def _of_kit(tree: ast.Module) -> Iterator[tuple[str, Keys, tuple[Change, ...]]]:
    """Yield the same for the probes of kit that a hidden test imports."""
    imported = {
        node.module: [alias.name for alias in node.names]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
    }
    if "kit.student_programs" in imported:
        yield from (("run_program", (key,), CHANGES) for key in ("exit", "stdout"))
    for name in sorted(LISTS_OF_KIT.keys() & imported.get("kit.student", [])):
        yield from ((name, LISTS_OF_KIT[name], (cut,)) for cut in CUTS)


def _fields(kind: Any) -> Iterator[tuple[Keys, tuple[Change, ...]]]:
    """Yield the fields of a type: those of its TypedDicts, the parts of its tuples, its lists."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, UnionType):
        for side in parts:
            yield from _fields(side)
        return
    inside: dict[str, Any] = {}
    if typing.is_typeddict(kind):
        inside = typing.get_type_hints(kind)
    elif origin is tuple:
        inside = {str(place): part for place, part in enumerate(parts)}
    elif origin in (list, dict):
        inside = {EVERY: parts[-1]}
        yield from (((), (cut,)) for cut in CUTS)
    elif kind is not NoneType:
        yield (), CHANGES
    for key, part in inside.items():
        yield from (((key, *keys), changes) for keys, changes in _fields(part))
