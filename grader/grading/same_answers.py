"""Whether two answers of student code are equal, up to the order of floating-point operations."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from grader.sandbox.replies import parts

# The same formula computed in another order differs by less than this; two different mistakes
# differ by more.
RTOL = {torch.float64: 1e-8}
RTOL_NARROW, ATOL = 1e-5, 1e-12


def same(a: Any, b: Any) -> bool:
    """Whether two values of plain data agree, up to the order of floating-point operations."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.shape == b.shape and a.dtype == b.dtype and a.device == b.device and _close(a, b)
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return (
            a.shape == b.shape
            and a.dtype == b.dtype
            and bool(np.array_equal(a, b, equal_nan=a.dtype.kind in "fc"))
        )
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
    rtol = RTOL.get(a.dtype, RTOL_NARROW)
    wide = torch.complex128 if a.is_complex() else torch.float64
    a, b = a.detach().to(wide), b.detach().to(wide)
    largest = float(b[b.isfinite()].abs().max()) if bool(b.isfinite().any()) else 0.0
    return bool(torch.isclose(a, b, rtol=0.0, atol=(ATOL + rtol) * largest, equal_nan=True).all())


def has_numbers(value: Any) -> bool:
    return type(value) in (int, float, Tensor, np.ndarray) or any(map(has_numbers, parts(value)))


def elements(value: Any) -> int:
    if isinstance(value, Tensor):
        return value.numel()
    if isinstance(value, np.ndarray):
        return value.size
    return sum(map(elements, parts(value)))
