"""Chapter 7: a linear layer, a stack of linear layers, and counting a module's parameters.

A module keeps its weights as parameters: tensors that the module registers under a name, that
`.to(...)` moves, that `state_dict` saves and that an optimizer updates. A weight gets its device
and its dtype when it is created. On the device "meta", a weight has a shape but no values.
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
        device: Where the gains live, "meta" included.
        dtype: The dtype of the gains.

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
    """A linear layer without a bias.

    y = x Wᵀ, for any leading dimensions. The initial weights are normal with mean 0 and
    std = 1/√in_features, truncated at ±3·std: a value beyond is drawn again, not clamped. Multiply
    yourself: nn.Linear and torch.nn.functional.linear are forbidden.

    Args:
        in_features, out_features: Sizes of x's and y's last dimension.
        device, dtype: Of the weight.

    Example:
        Weight [[2, 3]] maps x = (1, 10) to (32,).

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
        """Return x Wᵀ."""
        # TODO(linear): about 1 line.
        raise NotImplementedError("linear: see handout §7.1")


class MLP(nn.Module):
    """Linear layers with a ReLU between every two.

    y = W_n relu(… relu(W_2 relu(W_1 x))), for any leading dimensions. Each layer has its own
    weight, drawn as in `Linear`.

    Args:
        dims: The n + 1 sizes from the input to the output.
        device, dtype: Of the weights.

    Example:
        dims (4, 3, 2): two layers, 3·4 + 2·3 = 18 parameters.

    Handout §7.1
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
        """Return y."""
        # TODO(linear): about 4 lines.
        raise NotImplementedError("linear: see handout §7.1")


def count_parameters(module: nn.Module, *, trainable_only: bool = False) -> int:
    """The number of elements of all parameters of a module and its submodules.

    A tied parameter counts once. Buffers are not parameters.

    Args:
        module: Any module.
        trainable_only: Count only parameters with requires_grad.

    Example:
        MLP((4, 3, 2)) has 18 parameters, 6 of them trainable if its first layer is frozen.

    Handout §7.1
    """
    # TODO(linear): about 1 line.
    raise NotImplementedError("linear: see handout §7.1")
