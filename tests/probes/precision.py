"""Probes for precision.py: dtypes go by their names, as some of them do not cross, and a FloatSpec becomes a dict."""

from collections.abc import Sequence
from typing import Any

import torch

FIELDS = (
    "bits",
    "exponent_bits",
    "mantissa_bits",
    "max",
    "smallest_normal",
    "smallest_subnormal",
    "eps",
)


def specs(student: Any, *, dtypes: Sequence[str]) -> list[dict[str, Any]]:
    """The fields of float_spec for the dtypes of these names; None for a field that is not there."""
    made = [student.precision.float_spec(getattr(torch, dtype)) for dtype in dtypes]
    return [{name: _plain(getattr(spec, name, None)) for name in FIELDS} for spec in made]


def underflows(student: Any, *, values: Sequence[float], dtype: str) -> list[Any]:
    """underflows_to_zero of each value, for the dtype of this name."""
    return [student.precision.underflows_to_zero(value, getattr(torch, dtype)) for value in values]


def _plain(field: Any) -> Any:
    """numpy's float64 is a float, and crosses as one."""
    return float(field) if isinstance(field, float) else field
