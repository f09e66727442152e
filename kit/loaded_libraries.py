"""Questions about values of torch and NumPy, which a course need not use.

Where a process has not imported a library, no value can be of its types. So these functions never
import one.
"""

import sys
from typing import TYPE_CHECKING, Any, TypeGuard

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor


def is_tensor(x: object) -> "TypeGuard[Tensor]":
    """Whether a value is a tensor."""
    torch: Any = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def is_array(x: object) -> "TypeGuard[np.ndarray[Any, Any]]":
    """Whether a value is a NumPy array."""
    numpy: Any = sys.modules.get("numpy")
    return numpy is not None and isinstance(x, numpy.ndarray)


def is_scalar(x: object) -> "TypeGuard[np.generic[Any]]":
    """Whether a value is one of NumPy's numbers."""
    numpy: Any = sys.modules.get("numpy")
    return numpy is not None and isinstance(x, numpy.generic)
