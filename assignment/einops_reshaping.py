"""Chapter 3: reshaping, products and means in which every dimension has a name.

A pattern such as "b c h w -> b h w c" names the axes of a tensor before and after. Parentheses
mean that one dimension is made of several axes, the last of which varies fastest: in "(h p)" with
p of size P, the pair (h, p) has index h·P + p. `...` is any number of leading dimensions,
including none.

In this module the annotations give the patterns. You choose how to implement them: with einops,
with view and transpose, with einsum or with loops. Inputs may be float16, bfloat16, float32 or
float64. Each result has the dtype of its input, and gradients flow through it. Where a docstring
asks for a ValueError, the RuntimeError or IndexError of torch or einops will do as well.
"""

import math

import torch
from einops import einsum, rearrange, reduce
from jaxtyping import Bool, Float
from torch import Tensor


def downsample(images: Float[Tensor, "... (h a) (w b)"], factor: int) -> Float[Tensor, "... h w"]:
    """Replace each block of factor × factor pixels by its mean: a solved example for this module.

    small[i, j] = mean of images[i·factor + a, j·factor + b] over a and b from 0 to factor - 1.

    The pattern splits the height into h blocks of a rows and the width into w blocks of b columns.
    The axes a and b are missing after the arrow, so the mean is taken over them. We give einops the
    sizes of a and b, and einops computes h and w itself.

    Args:
        images: Images with any leading dimensions, such as batch and channels.
        factor: Side of a block.

    Raises:
        einops.EinopsError: `factor` does not divide the height or does not divide the width.
            EinopsError is a subclass of RuntimeError.

    Example:
        [[1, 3, 5, 7], [1, 3, 5, 7]] with factor 2: [[2, 6]].
    """
    return reduce(images, "... (h a) (w b) -> ... h w", "mean", a=factor, b=factor)


def split_heads(
    x: Float[Tensor, "... seq (heads d)"], heads: int
) -> Float[Tensor, "... heads seq d"]:
    """Give each head its slice of the features; heads precede seq.

    result[..., h, s, i] = x[..., s, h·d + i]

    Args:
        x: Features.
        heads: Number of heads.

    Raises:
        ValueError: `heads` does not divide the last dimension.

    Example:
        [[1, 2, 3, 4], [5, 6, 7, 8]], 2 heads: [[1, 2], [5, 6]] and [[3, 4], [7, 8]].

    Handout §3.1 · `python -m assignment check einops`
    """
    # TODO(einops): about 1 line.
    raise NotImplementedError("einops: see handout §3.1")


def merge_heads(x: Float[Tensor, "... heads seq d"]) -> Float[Tensor, "... seq (heads d)"]:
    """Put the heads' features side by side again: the inverse of split_heads.

    result[..., s, h·d + i] = x[..., h, s, i]

    Args:
        x: Features of each head.

    Example:
        Heads [[1, 2], [5, 6]] and [[3, 4], [7, 8]]: [[1, 2, 3, 4], [5, 6, 7, 8]].

    Handout §3.1
    """
    # TODO(einops): about 1 line.
    raise NotImplementedError("einops: see handout §3.1")


def attention_scores(
    q: Float[Tensor, "... q d"], k: Float[Tensor, "... k d"]
) -> Float[Tensor, "... q k"]:
    """How well each key matches each query.

    scores[..., i, j] = Σ_c q[..., i, c] · k[..., j, c] / √d

    Args:
        q: Queries.
        k: Keys, with the queries' leading dimensions.

    Example:
        The query (1, 1, 1, 1) and the keys (1, 1, 1, 1) and (1, -1, 1, -1): 4 / √4 = 2 and 0.

    Handout §3.1
    """
    # TODO(einops): about 1 line.
    raise NotImplementedError("einops: see handout §3.1")


def per_head_linear(
    x: Float[Tensor, "... (heads d_in)"],
    w: Float[Tensor, "heads d_in d_out"],
) -> Float[Tensor, "... (heads d_out)"]:
    """Multiply each head's slice of the features by its matrix.

    result[..., h·d_out + o] = Σ_i x[..., h·d_in + i] · w[h, i, o]

    Args:
        x: Features, one head after the other.
        w: One matrix per head.

    Raises:
        ValueError: The last dimension of x is not heads · d_in.

    Example:
        x = (3, 5) and the 1×1 matrices 10 and 100: (30, 500).

    Handout §3.1
    """
    # TODO(einops): about 5 lines.
    raise NotImplementedError("einops: see handout §3.1")


def masked_mean(
    x: Float[Tensor, "... seq d"], mask: Bool[Tensor, "... seq"]
) -> Float[Tensor, "... d"]:
    """The mean over the positions of a sequence that the mask keeps.

    result = Σ_s mask[..., s] · x[..., s, :] / Σ_s mask[..., s]

    Where the mask keeps no position, the result is 0. Positions that are not kept never
    count, even if they are NaN.

    Args:
        x: Features.
        mask: True where kept.

    Raises:
        ValueError: mask.shape is not x.shape[:-1], even if it could be broadcast.

    Example:
        [[1, 2], [3, 4], [5, 6]] with the mask (True, False, True): (3, 4).

    Handout §3.1
    """
    # TODO(einops): about 7 lines.
    raise NotImplementedError("einops: see handout §3.1")


def patchify(
    images: Float[Tensor, "b c (h p) (w p)"], patch: int
) -> Float[Tensor, "b (h w) (p p c)"]:
    """Cut images into square patches and flatten each: the tokens of a vision transformer.

    result[b, i·w + j, (r·p + s)·c + k] = images[b, k, i·p + r, j·p + s]

    Here p = patch, and c and w are those of the annotations.

    Args:
        images: Images with channels first.
        patch: Side of a patch in pixels.

    Raises:
        ValueError: `patch` does not divide the height or the width.

    Example:
        One channel [[0, 1, 2, 3], [4, 5, 6, 7]], patch 2: [0, 1, 4, 5] and [2, 3, 6, 7].

    Handout §3.1
    """
    # TODO(einops): about 1 line.
    raise NotImplementedError("einops: see handout §3.1")
