"""Chapter 7: a linear layer, a stack of them, and how many parameters a module has.

A module keeps its weights as parameters: tensors that it registers under a name, that `.to(...)` moves, that
`state_dict` saves and that an optimizer is given. Where a weight lives, and in which dtype, is decided when it is made.
"""

import itertools
import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn


class Scale(nn.Module):
    """Multiplies each feature by a gain of its own: a solved example for the modules below.

    y = x · gain, for any leading dimensions. The gains start at 1.

    Args:
        features: Size of x's last dimension.
        device: Where the gains live; None for torch's default.
        dtype: Of the gains; None for torch's default.

    Example:
        Gains (2, 3) take x = (5, 7) to (10, 21).
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
        """x with each feature multiplied by its gain."""
        return x * self.gain


class Linear(nn.Module):
    """A matrix that takes in_features numbers to out_features numbers, without a bias.

    y = x Wᵀ, for any leading dimensions. The weight's entries are drawn from a normal distribution of mean 0 and
    standard deviation std = 1/√in_features, truncated at -3·std and 3·std: as if a draw outside were drawn again, not
    clamped.

    Args:
        in_features: Size of x's last dimension.
        out_features: Size of y's last dimension.
        device: Where the weight lives; "meta" gives it a shape and no values; None for torch's default.
        dtype: Of the weight; None for torch's default.

    Example:
        Weight [[2, 3]] takes x = (1, 10) to (32,). With in_features = 4 every entry lies between -1.5 and 1.5.

    Handout §7.1 · linear · `pytest -k linear`
    """

    weight: Float[nn.Parameter, "out in"]

    def __init__(
        self,
        in_features: int,
        out_features: int,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        # BEGIN SOLUTION(linear)
        super().__init__()
        std = 1 / math.sqrt(in_features)
        weight = torch.empty(out_features, in_features, device=device, dtype=dtype)
        self.weight = nn.Parameter(nn.init.trunc_normal_(weight, std=std, a=-3 * std, b=3 * std))
        # END SOLUTION

    def forward(self, x: Float[Tensor, "... in"]) -> Float[Tensor, "... out"]:
        """x times the transposed weight.

        Args:
            x: Of the weight's dtype and device; it need not be contiguous.

        Raises:
            RuntimeError: x's last dimension is not in_features (torch's own error).
        """
        # BEGIN SOLUTION(linear)
        return x @ self.weight.T
        # END SOLUTION


class MLP(nn.Module):
    """Linear layers one after the other, with a ReLU between each two of them and none after the last.

    y = W_n relu(… relu(W_2 relu(W_1 x))), for any leading dimensions. Each layer has a weight of its own, made as in
    `Linear`, so layer i has dims[i + 1] · dims[i] parameters.

    Args:
        dims: Sizes from the input to the output, at least two; n + 1 sizes make n layers.
        device: Where the weights live; None for torch's default.
        dtype: Of the weights; None for torch's default.

    Example:
        dims (4, 3, 2) make two layers with 3·4 + 2·3 = 18 parameters.

    Handout §7.1 · linear · `pytest -k linear`
    """

    def __init__(
        self,
        dims: Sequence[int],
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        # BEGIN SOLUTION(linear)
        super().__init__()
        self.layers = nn.ModuleList(
            Linear(i, o, device, dtype) for i, o in itertools.pairwise(dims)
        )
        # END SOLUTION

    def forward(self, x: Float[Tensor, "... first"]) -> Float[Tensor, "... last"]:
        """x through every layer.

        Args:
            x: Of the weights' dtype and device.
        """
        # BEGIN SOLUTION(linear)
        *hidden, last = self.layers
        for layer in hidden:
            x = torch.relu(layer(x))
        return last(x)
        # END SOLUTION


def count_parameters(module: nn.Module, *, trainable_only: bool = False) -> int:
    """How many numbers a module has to learn: the elements of its parameters, submodules' as well.

    A parameter that is used in several places (a tied one) counts once. Buffers are no parameters.

    Args:
        module: Any module, on any device; on "meta" too, where nothing takes memory.
        trainable_only: Count only parameters with requires_grad.

    Example:
        MLP((4, 3, 2)): 3·4 + 2·3 = 18; after its first layer is frozen, 6 of them are trainable.

    Handout §7.1 · linear · `pytest -k linear`
    """
    # BEGIN SOLUTION(linear)
    return sum(p.numel() for p in module.parameters() if p.requires_grad or not trainable_only)
    # END SOLUTION
