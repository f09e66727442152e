"""Chapter 3: named axes: reshaping, products and means in which every dimension has a name.

A pattern such as "b c h w -> b h w c" names the axes of a tensor before and after. Parentheses say that one dimension is made
of several axes, the last of them stepping fastest: in "(h p)" with p of size P, h and p stand at index h·P + p. `...` is any
number of leading dimensions, none as well. Below, patterns stand in the annotations; how you follow them (einops, view and
transpose, einsum, loops) is yours to choose.
"""

import math

import torch
from einops import einsum, rearrange, reduce
from jaxtyping import Bool, Float
from torch import Tensor


def downsample(images: Float[Tensor, "... (h a) (w b)"], factor: int) -> Float[Tensor, "... h w"]:
    """Each block of factor × factor pixels replaced by its mean: a worked neighbour of the functions below.

    small[i, j] = mean of images[i·factor + a, j·factor + b] over a and b from 0 to factor - 1.

    The pattern splits height into h blocks of a rows and width into w blocks of b columns, and leaves a and b out after the
    arrow: these are the axes that the mean is taken over. einops is told a and b, finds h and w itself, and refuses what does
    not divide; only a factor below 1 is left to check.

    Args:
        images: Images with any leading dimensions, such as batch and channels.
        factor: Side of a block.

    Raises:
        ValueError: `factor` is below 1.
        einops.EinopsError: `factor` does not divide height and width; a kind of RuntimeError.

    Example:
        [[1, 3, 5, 7], [1, 3, 5, 7]] with factor 2: [[2, 6]].
    """
    if factor < 1:
        raise ValueError(f"factor must be at least 1, got {factor}")
    return reduce(images, "... (h a) (w b) -> ... h w", "mean", a=factor, b=factor)


def split_heads(x: Float[Tensor, "... seq (heads d)"], heads: int) -> Float[Tensor, "... heads seq d"]:
    """Each head's own slice of the features, with the heads as a dimension before the sequence.

    result[..., h, s, i] = x[..., s, h·d + i]

    Args:
        x: Features of each position: those of head 0 come first, then those of head 1, and so on.
        heads: How many heads share the last dimension.

    Raises:
        ValueError: `heads` is below 1, or does not divide the last dimension (where torch or einops itself refuses, its
            RuntimeError does as well).

    Example:
        [[1, 2, 3, 4], [5, 6, 7, 8]] with 2 heads: head 0 gets [[1, 2], [5, 6]], head 1 gets [[3, 4], [7, 8]].

    Handout §3.1 · einops · `pytest -k einops`
    """
    # TODO(einops): about 3 lines.
    raise NotImplementedError("einops: see handout §3.1")


def merge_heads(x: Float[Tensor, "... heads seq d"]) -> Float[Tensor, "... seq (heads d)"]:
    """The heads' features side by side again, for each position: what split_heads took apart.

    result[..., s, h·d + i] = x[..., h, s, i]

    Args:
        x: Features of each head at each position.

    Example:
        Heads [[1, 2], [5, 6]] and [[3, 4], [7, 8]]: [[1, 2, 3, 4], [5, 6, 7, 8]].

    Handout §3.1 · einops · `pytest -k einops`
    """
    # TODO(einops): about 1 line.
    raise NotImplementedError("einops: see handout §3.1")


def attention_scores(q: Float[Tensor, "... q d"], k: Float[Tensor, "... k d"]) -> Float[Tensor, "... q k"]:
    """How well each key matches each query.

    scores[..., i, j] = Σ_c q[..., i, c] · k[..., j, c] / √d

    Args:
        q: Queries.
        k: Keys, with the queries' leading dimensions.

    Raises:
        ValueError: q and k have different d, also where one of them is 1 and could be stretched (where torch or einops itself
            refuses, its RuntimeError does as well).

    Example:
        One query of length 4, all ones, and the keys (1, 1, 1, 1) and (1, -1, 1, -1): 4 / √4 = 2 and 0.

    Handout §3.1 · einops · `pytest -k einops`
    """
    # TODO(einops): about 4 lines.
    raise NotImplementedError("einops: see handout §3.1")


def per_head_linear(
    x: Float[Tensor, "... (heads d_in)"],
    w: Float[Tensor, "heads d_in d_out"],
) -> Float[Tensor, "... (heads d_out)"]:
    """Each head's slice of the features times a matrix of its own.

    result[..., h·d_out + o] = Σ_i x[..., h·d_in + i] · w[h, i, o]

    Args:
        x: Features, head after head, for any leading dimensions.
        w: One matrix a head; heads and d_in follow from its shape.

    Raises:
        ValueError: The last dimension of x is not heads · d_in, also where it could be stretched to that (where torch or
            einops itself refuses, its RuntimeError does as well).

    Example:
        Two heads of one feature: x = (3, 5) and the 1×1 matrices 10 and 100 give (30, 500).

    Handout §3.1 · einops · `pytest -k einops`
    """
    # TODO(einops): about 5 lines.
    raise NotImplementedError("einops: see handout §3.1")


def masked_mean(x: Float[Tensor, "... seq d"], mask: Bool[Tensor, "... seq"]) -> Float[Tensor, "... d"]:
    """The mean over the sequence of those positions that the mask keeps.

    result = Σ_s mask[..., s] · x[..., s, :] / Σ_s mask[..., s]

    Where a sequence keeps nothing, the result is 0. A position that is not kept has no part in the result, whatever stands
    there: padding may be NaN or infinite.

    Args:
        x: Features of each position.
        mask: True for a position that is kept; of x's shape without the last dimension.

    Raises:
        ValueError: `mask` has any other shape, also one that could be broadcast (where torch or einops itself refuses, its
            RuntimeError or IndexError does as well).

    Example:
        [[1, 2], [3, 4], [5, 6]] with the mask (True, False, True): (1 + 5) / 2 = 3 and (2 + 6) / 2 = 4.

    Handout §3.1 · einops · `pytest -k einops`
    """
    # TODO(einops): about 5 lines.
    raise NotImplementedError("einops: see handout §3.1")


def patchify(images: Float[Tensor, "b c (h p) (w p)"], patch: int) -> Float[Tensor, "b (h w) (p p c)"]:
    """Images cut into square patches, each of them flattened: what a vision transformer takes for tokens.

    result[b, i·w + j, (r·p + s)·c + k] = images[b, k, i·p + r, j·p + s], where p = patch, c is the number of channels and w the
    number of patches in a row: patches go row by row, inside a patch pixels go row by row, each with its channels side by side.

    Args:
        images: Images with channels first.
        patch: Side of a patch in pixels.

    Raises:
        ValueError: `patch` is below 1, or does not divide height and width (where torch or einops itself refuses, its
            RuntimeError does as well).

    Example:
        One channel [[0, 1, 2, 3], [4, 5, 6, 7]] with patch 2: [0, 1, 4, 5] and [2, 3, 6, 7].

    Handout §3.1 · einops · `pytest -k einops`
    """
    # TODO(einops): about 3 lines.
    raise NotImplementedError("einops: see handout §3.1")
