"""A sample of a test's cases for `make test`; `make proof` runs all of them."""

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


def _for_proof(case: Any) -> Any:
    if hasattr(case, "marks"):  # a pytest.param
        return pytest.param(*case.values, id=case.id, marks=[*case.marks, pytest.mark.proof])
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.proof)
