"""Chapter 1: two functions that nearly every network has."""

from torch import Tensor


def relu(x: Tensor) -> Tensor:
    """The larger of x and 0, entry by entry.

    Example:
        relu of (-1, 0, 2) is (0, 0, 2).

    Handout §1.1 · `python -m assignment check relu`
    """
    # TODO(relu): about 1 line.
    raise NotImplementedError("relu: see handout §1.1")


def softmax(x: Tensor) -> Tensor:
    """Positive numbers that add up to 1 along the last dimension, in proportion to exp(x).

    Scores may be large: exp(1000) overflows every float, but the result must still be right.

    Example:
        softmax of (0, 0) is (1/2, 1/2).

    Handout §1.2 · `python -m assignment check softmax`
    """
    # TODO(softmax): about 2 lines.
    raise NotImplementedError("softmax: see handout §1.2")
