"""Whether two answers of student code are equal, up to the order of floating-point operations."""

import math
import struct
from typing import TYPE_CHECKING, Any

from grader.sandbox.reply_checks import parts
from kit.loaded_libraries import is_array, is_tensor

if TYPE_CHECKING:
    from torch import Tensor

# The same formula computed in another order differs by less than this, as a share of the largest
# value; two different mistakes differ by more. The first is for float64, and for a Python number
# that float32 cannot hold; one that it can hold most likely comes from a float32 tensor.
RTOL, RTOL_NARROW, ATOL = 1e-8, 1e-5, 1e-12


def same(a: Any, b: Any) -> bool:
    """Whether two values of plain data agree, up to the order of floating-point operations."""
    if is_tensor(a) and is_tensor(b):
        return _have_one_shape(a, b) and a.device == b.device and _close(a, b)
    if is_array(a) and is_array(b):
        return _have_one_shape(a, b) and _equal(a, b)
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if type(a) is not type(b):
        return False
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return _near(a, b) if type(a) is float else bool(a == b)


def _have_one_shape(a: Any, b: Any) -> bool:
    return bool(a.shape == b.shape and a.dtype == b.dtype)


def _near(a: float, b: float) -> bool:
    rtol = RTOL_NARROW if _is_narrow(a) and _is_narrow(b) else RTOL
    near = math.isfinite(b) and abs(a - b) <= (ATOL + rtol) * abs(b)
    return near or a == b or (math.isnan(a) and math.isnan(b))


def _is_narrow(number: float) -> bool:
    """Whether float32 holds this number exactly."""
    try:
        return bool(struct.unpack("f", struct.pack("f", number))[0] == number)
    except OverflowError:
        return False


def _equal(a: Any, b: Any) -> bool:
    import numpy as np

    return bool(np.array_equal(a, b, equal_nan=a.dtype.kind in "fc"))


def _close(a: "Tensor", b: "Tensor") -> bool:
    import torch

    if a.device.type == "meta":
        return True
    if not (a.is_floating_point() or a.is_complex()):
        return torch.equal(a, b)
    rtol = RTOL if a.dtype is torch.float64 else RTOL_NARROW
    wide = torch.complex128 if a.is_complex() else torch.float64
    a, b = a.detach().to(wide), b.detach().to(wide)
    largest = float(b[b.isfinite()].abs().max()) if bool(b.isfinite().any()) else 0.0
    return bool(torch.isclose(a, b, rtol=0.0, atol=(ATOL + rtol) * largest, equal_nan=True).all())


def has_numbers(value: Any) -> bool:
    is_number = type(value) in (int, float) or is_tensor(value) or is_array(value)
    return is_number or any(map(has_numbers, parts(value)))


def elements(value: Any) -> int:
    if is_tensor(value):
        return value.numel()
    if is_array(value):
        return value.size
    return sum(map(elements, parts(value)))
