"""Chapter 4: how many floating-point operations a computation takes, by formula and by watching it run.

Nearly all the arithmetic of training is matrix products, so those are what is counted. In a product of an m×k and a k×n
matrix each of the m·n results is a sum of k products: k multiplies and k adds, 2·m·k·n FLOPs in all. Every formula of
this chapter is that one, used again.

A multiply and an add are two FLOPs, in every dtype. All counts are Python integers, exact however large.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class OperatorLog(TorchDispatchMode):
    """The names of torch's operators, in the order in which they run: a worked neighbour of FlopCounter below.

    Inside the `with` torch hands every operator that it is about to run to `__torch_dispatch__`, those of the backward
    pass as well. By then `x @ y` or a linear layer has become the operators that do the work: views, transposes, mm.
    What `__torch_dispatch__` returns is what the caller gets. Inside it the mode is off, so running the operator does
    not come back to it.

    Attributes:
        names: One name an operator, with its overload.

    Example:
        with OperatorLog() as log:
            torch.ones(2, 3) @ torch.ones(3, 4)
        log.names == ["aten.ones.default", "aten.ones.default", "aten.mm.default"]
    """

    names: list[str]

    def __init__(self) -> None:
        super().__init__()
        self.names = []

    def __torch_dispatch__(
        self,
        func: torch._ops.OpOverload,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Note one operator, run it and return what it returned."""
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def matmul_flops(a: Sequence[int], b: Sequence[int]) -> int:
    """The FLOPs of torch.matmul for operands of these shapes.

    FLOPs = 2 · K · elements of the result, where K is the size that is summed over: the last of a, and the last but one
    of b (the only one of a vector).

    Which shapes fit is what torch.matmul says: a vector on the left is a row, one on the right a column, and leading
    (batch) dimensions are broadcast against each other. The size that is summed over must be the same in both: a 1 is
    not broadcast there.

    Args:
        a: Shape of the left operand, with at least one dimension.
        b: Shape of the right operand, with at least one dimension.

    Raises:
        ValueError: The shapes do not fit (torch's own RuntimeError is as good).

    Example:
        (4, 8, 16, 32) and (32, 2): 2 · 32 · (4·8·16·2) = 65,536.

    Handout §4.1 · flop_formulas · `pytest -k flop_formulas`
    """
    # TODO(flop_formulas): about 10 lines.
    raise NotImplementedError("flop_formulas: see handout §4.1")


def linear_flops(
    tokens: int,
    in_features: int,
    out_features: int,
    *,
    backward: bool = False,
    input_grad: bool = True,
) -> int:
    """The FLOPs of a linear layer without a bias, forward or forward and backward.

    forward         y = x Wᵀ        2 · tokens · in · out
    weight's gradient  dW = dyᵀ x   the same again
    input's gradient   dx = dy W    the same again

    Args:
        tokens: Rows of x: everything but its last dimension, multiplied.
        in_features: Size of x's last dimension.
        out_features: Size of y's last dimension.
        backward: Add the backward pass to the forward pass.
        input_grad: Whether the backward pass computes dx too; without `backward` it changes nothing.

    Example:
        10 tokens, 3 → 4 features: 2 · 10 · 3 · 4 = 240 forward; 720 with backward; 480 where x needs no gradient.

    Handout §4.1 · flop_formulas · `pytest -k flop_formulas`
    """
    # TODO(flop_formulas): about 2 lines.
    raise NotImplementedError("flop_formulas: see handout §4.1")


def mlp_flops(batch: int, dims: Sequence[int], *, backward: bool = False) -> int:
    """The FLOPs of bias-free linear layers one after the other, forward or forward and backward.

    Layer i takes dims[i] features to dims[i + 1]. The data needs no gradient, so the first layer's backward pass computes
    the gradient of its weight alone. What stands between the layers (ReLU and the like) is not counted.

    Args:
        batch: Rows of the input.
        dims: Sizes from the input to the output, at least two; n + 1 sizes make n layers.
        backward: Add the backward pass to the forward pass.

    Example:
        64 rows through (32, 32, 16): forward 2·64·(32·32 + 32·16) = 196,608. With backward three times that less
        2·64·32·32 for the gradient that nobody needs: 458,752. That is 0.778 of 6 · parameters · rows.

    Handout §4.1 · flop_formulas · `pytest -k flop_formulas`
    """
    # TODO(flop_formulas): about 2 lines.
    raise NotImplementedError("flop_formulas: see handout §4.1")


@dataclass(frozen=True)
class TransformerConfig:
    """The sizes of a decoder-only transformer.

    Args:
        vocab_size: Tokens that there are.
        context_length: The longest sequence that it takes.
        num_layers: Blocks, each an attention and a feed-forward network (FFN).
        d_model: Features of a token between the blocks.
        num_heads: Attention heads, each of d_model / num_heads features; queries, keys and values have the same number.
        d_ff: Features inside the FFN.
        gated_ffn: The FFN is gated (SwiGLU and the like): three matrices in place of two, all d_model × d_ff.
        tied_embeddings: The output layer (the LM head) uses the embedding's matrix in place of one of its own.
    """

    vocab_size: int
    context_length: int
    num_layers: int
    d_model: int
    num_heads: int
    d_ff: int
    gated_ffn: bool = False
    tied_embeddings: bool = False


def transformer_forward_flops(config: TransformerConfig, batch: int, seq: int) -> dict[str, int]:
    """The FLOPs of a transformer's matrix products in one forward pass, by part, all layers together.

    "qkv"               x times three d_model × d_model matrices
    "attention_scores"  q kᵀ in every head: each of a sequence's queries with each of its keys
    "attention_values"  the probabilities times v, in every head
    "attention_output"  the heads' results, side by side, times a d_model × d_model matrix
    "ffn"               two matrices, three in a gated FFN
    "lm_head"           every token to vocab_size logits, once, after the last layer

    A causal mask is not discounted: the masked scores are counted too. Embedding look-ups are no products and cost
    nothing, and softmax, norms and activations are not counted.

    Args:
        config: The model.
        batch: Sequences.
        seq: Tokens in each, at most config.context_length.

    Returns:
        These six keys. The values' sum is the whole forward pass.

    Example:
        vocabulary 100, context 16, 2 layers, d_model 8, 2 heads, d_ff 32; 3 sequences of 5 tokens: qkv 11,520,
        attention_scores and attention_values 2,400 each, attention_output 3,840, ffn 30,720, lm_head 24,000.

    Handout §4.1 · flop_formulas · `pytest -k flop_formulas`
    """
    # TODO(flop_formulas): about 12 lines.
    raise NotImplementedError("flop_formulas: see handout §4.1")


def training_flops(num_parameters: int, num_tokens: int, *, recompute_forward: bool = False) -> int:
    """The FLOPs of training, by the rule of thumb: 6 · parameters · tokens.

    Each parameter takes part in one multiply-add a token forward (2 FLOPs) and in two backward (4). Where no activation is
    kept, the backward pass runs the forward pass once more, and it is 8 · parameters · tokens.

    Args:
        num_parameters: Parameters of the model.
        num_tokens: Tokens that it is trained on.
        recompute_forward: Full activation checkpointing.

    Example:
        70 billion parameters, 15 trillion tokens: 6 · 70e9 · 15e12 = 6.3e24, and 8.4e24 with recomputation.

    Handout §4.1 · flop_formulas · `pytest -k flop_formulas`
    """
    # TODO(flop_formulas): about 1 line.
    raise NotImplementedError("flop_formulas: see handout §4.1")


class FlopCounter(TorchDispatchMode):
    """Counts the FLOPs of the matrix products that run inside its `with`, forward and backward.

    with FlopCounter() as counter:
        model(x).sum().backward()
    print(counter.total, counter.by_op)

    What is counted, by the operator as aten names it:

    mm, addmm, bmm, baddbmm, mv, dot    2 · m · k · n, times the batch. What addmm and baddbmm add to the product is free.
    _scaled_dot_product_*_attention*    fused attention. With b batches, h heads of queries, q queries and k keys, d features
        of a query and v of a value it is 2 · b·h·q·k · (d + v) forward: the scores, and their product with the values. For
        d = v that is 4·b·h·q·k·d. Its backward pass (…_backward) is 2 · b·h·q·k · (3d + 2v), for d = v 10·b·h·q·k·d: it
        makes the scores once more and computes four products from them. A causal mask is not discounted. The * stands for
        the kernel that torch chooses, such as flash_attention_for_cpu, flash_attention, efficient_attention.

    Attention that torch computes without a fused kernel runs as bmm or mm and counts as that. What is no product (element-wise
    operators, reductions, views, copies) counts nothing; products by other operators than these are not asked for.

    `by_op` has one key for each kind that ran, and its values' sum is `total`. The keys are "mm", "addmm", "bmm", "baddbmm",
    "mv", "dot", "scaled_dot_product_attention" and "scaled_dot_product_attention_backward", whatever the kernel. An in-place
    form and one with out= have the plain name: addmm_ counts under "addmm".

    A counter changes nothing that it watches. Both attributes are up to date at any time: inside the `with`, after it, and
    after an exception, which goes on to the caller. Counters can be nested, and each counts everything that runs inside its own
    `with`.

    Under torch.inference_mode an operator that is made of others (matmul, linear, scaled_dot_product_attention) comes to
    `__torch_dispatch__` whole. `func.decompose(*args, **kwargs)` runs such an operator as its parts and returns the result;
    for any other it returns NotImplemented and runs nothing. Inside `with self:` the parts come to `__torch_dispatch__` too.

    Attributes:
        total: FLOPs counted so far.
        by_op: The same by kind of operator.

    Example:
        A 2×3 times a 3×4 matrix: total 2·2·3·4 = 48, by_op {"mm": 48}.

    Handout §4.2 · flop_counter · `pytest -k flop_counter`
    """

    total: int
    by_op: dict[str, int]

    def __init__(self) -> None:
        # TODO(flop_counter): about 3 lines, beside about 21 in helpers for the whole problem.
        raise NotImplementedError("flop_counter: see handout §4.2")

    def __torch_dispatch__(
        self,
        func: torch._ops.OpOverload,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Run one operator, count it and return what it returned.

        Args:
            func: The operator; `func.overloadpacket` is the same for its out= form and its other overloads.
            types: Not needed here.
            args: Its arguments, tensors and others, in the order of the operator's signature.
            kwargs: Those that it takes by name only, such as out= and alpha=.
        """
        # TODO(flop_counter): about 10 lines, beside about 21 in helpers for the whole problem.
        raise NotImplementedError("flop_counter: see handout §4.2")
