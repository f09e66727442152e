"""A sample of a test's cases for `make test`, and a part of the proof for each push.

`make proof` runs all of them.
"""

import zlib
from collections.abc import Iterable
from typing import Any

import pytest


def every(step: int, cases: Iterable[Any]) -> list[Any]:
    """Mark all cases but every `step`th one with `proof`.

    Args:
        step: 1 marks none, 2 marks every second case.
        cases: Values, tuples of values or `pytest.param`s.
    """
    return [case if place % step == 0 else _for_proof(case) for place, case in enumerate(cases)]


def thirds(items: Iterable[pytest.Item]) -> list[set[pytest.Item]]:
    """Three parts of the tests that are marked `proof`, by their ids alone."""
    parts: list[set[pytest.Item]] = [set(), set(), set()]
    for item in items:
        if item.get_closest_marker("proof"):
            parts[zlib.crc32(item.nodeid.encode()) % 3].add(item)
    return parts


def _for_proof(case: Any) -> Any:
    if hasattr(case, "marks"):  # a pytest.param
        return pytest.param(*case.values, id=case.id, marks=[*case.marks, pytest.mark.proof])
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.proof)
