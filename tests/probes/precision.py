"""Probes for precision.py.

Dtypes are passed by name, because some of them cannot cross the process boundary, and a FloatSpec
becomes a dict.
"""

from collections.abc import Sequence
from typing import Any

import torch

FIELDS = (
    *("bits", "exponent_bits", "mantissa_bits"),
    *("max", "smallest_normal", "smallest_subnormal", "eps"),
)


def specs(student: Any, *, dtypes: Sequence[str]) -> list[dict[str, Any]]:
    """The fields of float_spec for the dtypes of these names; None for a missing field."""
    made = [student.precision.float_spec(getattr(torch, dtype)) for dtype in dtypes]
    found = [{name: getattr(spec, name, None) for name in FIELDS} for spec in made]
    # numpy's float64 becomes a float, which can cross the process boundary.
    return [{k: float(x) if isinstance(x, float) else x for k, x in of.items()} for of in found]


def underflows(student: Any, *, values: Sequence[float], dtype: str) -> list[Any]:
    """underflows_to_zero of each value, for the dtype of this name."""
    return [student.precision.underflows_to_zero(value, getattr(torch, dtype)) for value in values]
