"""Chapter 4: the floating-point operations of a computation, by formula and by measurement.

Nearly all the arithmetic of training is matrix products, so we count only those. In the product of
an m×k and a k×n matrix, each of the m·n results is a sum of k products: k multiplies and k adds,
2·m·k·n FLOPs in total. Every formula of this chapter applies this one.

A multiply and an add are two FLOPs, in every dtype. All counts are Python integers, which are
exact at any size.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class OperatorLog(TorchDispatchMode):
    """Record the names of torch's operators as they run: a solved example for FlopCounter below.

    Inside the `with`, torch passes every operator that it is about to run to `__torch_dispatch__`,
    including those of the backward pass. By then torch has replaced `x @ y` or a linear layer by
    the operators that do the work: views, transposes, mm. The return value of `__torch_dispatch__`
    goes to the caller of the operator. The mode is off inside `__torch_dispatch__`, so running the
    operator there does not call `__torch_dispatch__` again.

    Attributes:
        names: The name of each operator call, with its overload, in the order of the calls.

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
        """Record the name of one operator, run the operator and return its result."""
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def matmul_flops(a: Sequence[int], b: Sequence[int]) -> int:
    """The FLOPs of torch.matmul for operands of these shapes.

    2·K per element of the result; K is the size summed over. A vector is a row on the left, a
    column on the right. Leading dimensions broadcast.

    Args:
        a, b: Shapes of the operands.

    Raises:
        ValueError: The shapes do not fit.

    Example:
        (4, 8, 16, 32) and (32, 2): 2·32·(4·8·16·2) = 65,536.

    Handout §4.1 · `python -m assignment check flop_formulas`
    """
    # BEGIN SOLUTION(flop_formulas)
    if a[-1] != b[-2:][0]:
        raise ValueError(
            f"a {tuple(a)} and b {tuple(b)} differ in the size that is summed over: "
            f"{a[-1]} and {b[-2:][0]}"
        )
    flops = 2 * a[-1] * (a[-2] if len(a) > 1 else 1) * (b[-1] if len(b) > 1 else 1)
    for x, y in itertools.zip_longest(reversed(a[:-2]), reversed(b[:-2]), fillvalue=1):
        if x != y and 1 not in (x, y):
            raise ValueError(f"the leading sizes of a {tuple(a)} and b {tuple(b)} do not broadcast")
        flops *= y if x == 1 else x
    return flops
    # END SOLUTION


def linear_flops(
    tokens: int,
    in_features: int,
    out_features: int,
    *,
    backward: bool = False,
    input_grad: bool = True,
) -> int:
    """The FLOPs of a bias-free linear layer.

    y = x Wᵀ takes 2·tokens·in·out, as do dW = dyᵀ x and dx = dy W.

    Args:
        tokens: Rows of x.
        in_features, out_features: Columns of x and y.
        backward: Add the backward pass.
        input_grad: Whether to compute dx.

    Example:
        10 tokens, 3 → 4 features: 240 forward, 720 with both gradients, 480 without dx.

    Handout §4.1
    """
    # BEGIN SOLUTION(flop_formulas)
    products = 1 + backward + (backward and input_grad)
    return products * 2 * tokens * in_features * out_features
    # END SOLUTION


def mlp_flops(batch: int, dims: Sequence[int], *, backward: bool = False) -> int:
    """The FLOPs of a stack of bias-free linear layers.

    The first layer's backward pass computes no dx.

    Args:
        batch: Rows of the input.
        dims: Sizes from the input to the output, one more than there are layers.
        backward: Add the backward pass.

    Example:
        64 rows, (32, 32, 16): 2·64·(32·32 + 32·16) = 196,608;
        with backward 3·196,608 - 2·64·32·32 = 458,752.

    Handout §4.1
    """
    # BEGIN SOLUTION(flop_formulas)
    products = [2 * batch * i * o for i, o in itertools.pairwise(dims)]
    return 3 * sum(products) - products[0] if backward else sum(products)
    # END SOLUTION


@dataclass(frozen=True)
class TransformerConfig:
    """The sizes of a decoder-only transformer (handout chapter 0).

    Args:
        vocab_size: Number of different tokens.
        context_length: The longest sequence that the model takes, in tokens.
        num_layers: Number of blocks, each with an attention layer and a feed-forward network (FFN).
        d_model: Features per token between the blocks.
        num_heads: Heads of queries.
        d_ff: Features inside an FFN.
        gated_ffn: Whether an FFN is gated (as in SwiGLU). A gated FFN has three d_model × d_ff
            matrices instead of two.
        tied_embeddings: Whether the output layer (the LM head) uses the embedding's matrix
            instead of its own.
        kv_heads: Heads of keys, and of values; None for num_heads.
        head_width: Features of a head; None for d_model / num_heads.
        experts: FFNs of a layer, between which a router chooses; 1 for no router. A router is small
            enough not to be counted.
        active_experts: How many of them each token goes through.
        shared_experts: FFNs of a layer that every token goes through besides.
    """

    vocab_size: int
    context_length: int
    num_layers: int
    d_model: int
    num_heads: int
    d_ff: int
    gated_ffn: bool = False
    tied_embeddings: bool = False
    kv_heads: int | None = None
    head_width: int | None = None
    experts: int = 1
    active_experts: int = 1
    shared_experts: int = 0

    @property
    def query_width(self) -> int:
        """Features of a token's queries, all heads together."""
        return self.num_heads * (self.head_width or self.d_model // self.num_heads)

    @property
    def kv_width(self) -> int:
        """Features of a token's keys, all heads together, and also of its values."""
        return self.query_width // self.num_heads * (self.kv_heads or self.num_heads)


def transformer_forward_flops(config: TransformerConfig, batch: int, seq: int) -> dict[str, int]:
    """The FLOPs of a transformer's forward pass by part, over all layers.

    "qkv"               x times matrices of query_width, kv_width and kv_width columns
    "attention_scores"  q kᵀ in every head of queries of every sequence
    "attention_values"  the probabilities times v, likewise
    "attention_output"  the heads' results times a query_width × d_model matrix
    "ffn"               two matrices, or three if gated, of each FFN that a token goes through
    "lm_head"           vocab_size logits per token, once, tied or not

    A causal mask lowers no count. An embedding look-up is no product.

    Args:
        config: The model.
        batch, seq: Sequences, and tokens per sequence.

    Example:
        Vocabulary 100, 2 layers, d_model 8, 2 heads, d_ff 32, and 3 sequences of 5 tokens: qkv
        11,520, scores and values 2,400 each, output 3,840, ffn 30,720, lm_head 24,000.
        With kv_heads 1: qkv 7,680. With 2 active experts: ffn 61,440.

    Handout §4.1
    """
    # BEGIN SOLUTION(flop_formulas)
    # All tokens times one column of a matrix with d_model rows.
    column = 2 * batch * seq * config.d_model
    layers = config.num_layers * column
    scores = config.num_layers * 2 * batch * seq**2 * config.query_width
    ffns = config.active_experts + config.shared_experts
    return {
        "qkv": layers * (config.query_width + 2 * config.kv_width),
        "attention_scores": scores,
        "attention_values": scores,
        "attention_output": layers * config.query_width,
        "ffn": layers * ffns * (3 if config.gated_ffn else 2) * config.d_ff,
        "lm_head": column * config.vocab_size,
    }
    # END SOLUTION


def training_flops(num_parameters: int, num_tokens: int, *, recompute_forward: bool = False) -> int:
    """The FLOPs of training, by the rule of thumb: 6·parameters·tokens.

    If the forward pass runs twice, it is 8·parameters·tokens.

    Args:
        num_parameters: Size of the model.
        num_tokens: Tokens to train on.
        recompute_forward: Whether it runs twice.

    Example:
        70e9 parameters, 15e12 tokens: 6.3e24, or 8.4e24 with recomputation.

    Handout §4.1
    """
    # BEGIN SOLUTION(flop_formulas)
    return (8 if recompute_forward else 6) * num_parameters * num_tokens
    # END SOLUTION


class FlopCounter(TorchDispatchMode):
    """Count the FLOPs of the matrix products that run inside a `with`, forward and backward.

    Of aten's operators, these count:

    - mm, addmm, bmm, baddbmm, mv, dot: 2·m·k·n, times the batch size. What addmm and baddbmm add is
      free.
    - _scaled_dot_product_KERNEL, for any kernel, such as flash_attention_for_cpu:
      2·b·h·q·k·(d + v), for b batches, h query heads, q queries, k keys, and d features of a query
      and v of a value.
    - _scaled_dot_product_KERNEL_backward: 2·b·h·q·k·(3d + 2v).

    A mask lowers no count. Counters may be nested, and entered again to go on counting.

    Attributes:
        total: FLOPs counted so far.
        by_op: The same by operator, under any names.

    Example:
        A 2×3 times a 3×4 matrix: 2·2·3·4 = 48.

    Handout §4.2 · `python -m assignment check flop_counter`
    """

    total: int
    by_op: dict[str, int]

    def __init__(self) -> None:
        # BEGIN SOLUTION(flop_counter)
        super().__init__()
        self.total = 0
        self.by_op = {}
        # END SOLUTION

    def __torch_dispatch__(
        self,
        func: torch._ops.OpOverload,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Run one operator, count its FLOPs and return its result.

        The operator's name is func.overloadpacket.__name__.
        """
        # BEGIN SOLUTION(flop_counter)
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if flops := _flops(name, args):
            self.by_op[name] = self.by_op.get(name, 0) + flops
            self.total += flops
        return result
        # END SOLUTION


# BEGIN SOLUTION(flop_counter)
# The position of the left operand among the arguments.
LEFT_OPERAND = {"mm": 0, "addmm": 1, "bmm": 0, "baddbmm": 1, "mv": 0, "dot": 0}


def _flops(name: str, args: tuple[Any, ...]) -> int:
    """The FLOPs of an operator; 0 if it is not counted."""
    if name in LEFT_OPERAND:
        a, b = args[LEFT_OPERAND[name]], args[LEFT_OPERAND[name] + 1]
        return int(2 * a.numel() * (b.shape[-1] if b.dim() > 1 else 1))
    if not name.startswith("_scaled_dot_product_"):
        return 0
    backward = name.endswith("_backward")
    # The backward operator takes the output's gradient first.
    q, k, v = args[1:4] if backward else args[:3]
    products = 3 * q.shape[-1] + 2 * v.shape[-1] if backward else q.shape[-1] + v.shape[-1]
    return int(2 * math.prod(q.shape[:-1]) * k.shape[2] * products)


# END SOLUTION
