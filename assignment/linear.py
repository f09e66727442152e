"""Chapter 7: a linear layer, a stack of linear layers, and counting a module's parameters.

A module keeps its weights as parameters: tensors that the module registers under a name, that
`.to(...)` moves, that `state_dict` saves and that an optimizer updates. A weight gets its device
and its dtype when it is created.
"""

import itertools
import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn


class Scale(nn.Module):
    """Multiply each feature by its own gain: a solved example for the modules below.

    y = x · gain, for any leading dimensions. The gains start at 1.

    Args:
        features: Size of x's last dimension.
        device: The device of the gains; None for torch's default.
        dtype: The dtype of the gains; None for torch's default.

    Example:
        Gains (2, 3) map x = (5, 7) to (10, 21).
    """

    gain: Float[nn.Parameter, "features"]

    def __init__(
        self,
        features: int,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(features, device=device, dtype=dtype))

    def forward(self, x: Float[Tensor, "... features"]) -> Float[Tensor, "... features"]:
        """Return x with each feature multiplied by its gain."""
        return x * self.gain


class Linear(nn.Module):
    """A matrix that maps in_features numbers to out_features numbers, without a bias.

    y = x Wᵀ, for any leading dimensions. The weight's entries are drawn from a normal distribution
    of mean 0 and standard deviation std = 1/√in_features, truncated at -3·std and 3·std: a value
    outside this range is drawn again, not clamped.

    Args:
        in_features: Size of x's last dimension, at least 1.
        out_features: Size of y's last dimension, at least 1.
        device: The device of the weight; None for torch's default. On "meta" the weight has a shape
            but no values.
        dtype: The dtype of the weight; None for torch's default.

    Example:
        Weight [[2, 3]] maps x = (1, 10) to (32,). With in_features = 4, every entry of a new weight
        lies between -1.5 and 1.5.

    Handout §7.1 · `python -m assignment check linear`
    """

    weight: Float[nn.Parameter, "out in"]

    def __init__(
        self,
        in_features: int,
        out_features: int,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        # TODO(linear): about 4 lines.
        raise NotImplementedError("linear: see handout §7.1")

    def forward(self, x: Float[Tensor, "... in"]) -> Float[Tensor, "... out"]:
        """Return x times the transposed weight.

        Args:
            x: A tensor with the weight's dtype and device. It need not be contiguous.

        Raises:
            RuntimeError: The size of x's last dimension is not in_features. (torch's own error. A
                size of 1 may be broadcast instead, as torch.einsum does.)
        """
        # TODO(linear): about 1 line.
        raise NotImplementedError("linear: see handout §7.1")


class MLP(nn.Module):
    """A stack of linear layers with a ReLU between every two layers and none after the last one.

    y = W_n relu(… relu(W_2 relu(W_1 x))), for any leading dimensions. Each layer has its own
    weight, initialised as in `Linear`, so layer i has dims[i + 1] · dims[i] parameters.

    Args:
        dims: Sizes from the input to the output, at least two; n + 1 sizes make n layers.
        device: The device of the weights; None for torch's default.
        dtype: The dtype of the weights; None for torch's default.

    Example:
        dims (4, 3, 2) give two layers with 3·4 + 2·3 = 18 parameters.

    Handout §7.1 · `python -m assignment check linear`
    """

    def __init__(
        self,
        dims: Sequence[int],
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        # TODO(linear): about 4 lines.
        raise NotImplementedError("linear: see handout §7.1")

    def forward(self, x: Float[Tensor, "... first"]) -> Float[Tensor, "... last"]:
        """Pass x through every layer.

        Args:
            x: A tensor with the weights' dtype and device.
        """
        # TODO(linear): about 4 lines.
        raise NotImplementedError("linear: see handout §7.1")


def count_parameters(module: nn.Module, *, trainable_only: bool = False) -> int:
    """The number of elements of a module's parameters, including those of its submodules.

    A tied parameter, which is used in several places, counts once. Buffers are not parameters.

    Args:
        module: Any module on any device, including "meta", where nothing takes memory.
        trainable_only: Count only parameters with requires_grad.

    Example:
        MLP((4, 3, 2)) has 3·4 + 2·3 = 18 parameters. If its first layer is frozen, 6 of them
        are trainable.

    Handout §7.1 · `python -m assignment check linear`
    """
    # TODO(linear): about 1 line.
    raise NotImplementedError("linear: see handout §7.1")
