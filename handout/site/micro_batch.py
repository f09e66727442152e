"""Bytes on a device, at the peak of one micro-batch and of a cache of keys and values.

This is the one source for every page and calculator.

The model is a decoder-only transformer with pre-norms, no biases and no dropout, trained with
AdamW. Its matrix products run in bfloat16. The residual stream has the dtype of the weights: under
autocast the weights are float32, so the stream and the inputs of the norms are float32 too, and
autocast keeps a bfloat16 copy of the weights until the backward pass. With bfloat16 weights there
are no copies. The loss is computed in float32.

tests/handout/test_micro_batch.py runs a real step of a small model, and compares what it keeps, and
its peak, with these functions to the byte.
"""

from typing import Any, NamedTuple, cast

import torch

from grader.solutions.reference import resource_accounting as accounting
from grader.solutions.reference.flop_counting import TransformerConfig

BF16, FP32 = 2, 4  # bytes
LOGIT = 3 * FP32  # the log-softmax, its gradient and the gradient of the logits, alive at once
FORWARD_LOGIT = 2 * FP32  # the logits and their log-softmax, when the forward pass ends


class Peak(NamedTuple):
    """Bytes of each part that is alive at the peak."""

    weights: int
    gradients: int
    moments: int
    master: int
    copies: int  # autocast's bfloat16 copies of float32 weights
    layers: int  # activations that the layers keep
    head: int  # inputs of the last norm and of the LM head
    logits: int  # what computing the loss keeps and makes

    @property
    def states(self) -> int:
        """Weights, gradients, moments and master: they do not depend on the micro-batch."""
        return self.weights + self.gradients + self.moments + self.master

    @property
    def total(self) -> int:
        """All parts together."""
        return sum(self)


def stream_bytes(recipe: accounting.TrainingRecipe) -> int:
    """Bytes per number of the residual stream."""
    return recipe.parameter.itemsize


def layer_bytes(
    config: TransformerConfig,
    tokens: int,
    recipe: accounting.TrainingRecipe,
    *,
    fused_attention: bool = True,
    projections: int = 1,
) -> int:
    """Bytes that one layer keeps for its backward pass.

    The statistics of norms (16 bytes per token for two layer norms in float32), the log-sum-exp of
    fused attention (4 bytes per token and head), and what a router keeps besides its input are left
    out. An expert is given a copy of its tokens, and the router's weights multiply its result.

    Args:
        config: The model.
        tokens: Tokens of the micro-batch.
        recipe: Its first dtype is that of the weights.
        fused_attention: Whether attention keeps no scores. Otherwise each score takes 2 bytes, and
            under autocast on a GPU 6, because softmax runs in float32.
        projections: Matrices for q, k and v, 1 or 3. Autocast casts the input of each matrix
            separately.
    """
    d, ffns = config.d_model, config.active_experts + config.shared_experts
    autocast, has_router = recipe.parameter == torch.float32, config.experts > 1
    routed = config.active_experts * has_router
    norms = 2 * stream_bytes(recipe) * d
    # The casts of the norms' results. A gated FFN has two first products.
    casts = projections + has_router + (1 + config.gated_ffn) * ffns
    inputs = BF16 * d * (casts if autocast else 2 + routed)
    # q, k and v, and the input of the output projection.
    attention = BF16 * (config.query_width + 2 * config.kv_width + config.query_width)
    # The first product's result and the activation function's; with a gate also the other
    # product's result and the product of the two. Then the results of routed experts.
    ffn = BF16 * ((4 if config.gated_ffn else 2) * config.d_ff * ffns + d * routed)
    scores = 0 if fused_attention else config.num_heads * config.context_length
    kept_scores = scores * (BF16 + FP32 * autocast)
    return tokens * (norms + inputs + attention + ffn + kept_scores)


def cache_bytes(config: TransformerConfig, tokens: int, dtype: torch.dtype) -> int:
    """Bytes of the keys and values of so many tokens, which generating the next one reads."""
    return 2 * config.num_layers * config.kv_width * tokens * dtype.itemsize


def checkpoint_bytes(
    config: TransformerConfig, tokens: int, recipe: accounting.TrainingRecipe
) -> int:
    """Bytes that a checkpointed segment keeps: its input, a piece of the residual stream."""
    return stream_bytes(recipe) * tokens * config.d_model


def peak(
    config: TransformerConfig,
    sequences: int,
    recipe: accounting.TrainingRecipe,
    *,
    segments: int = 0,
    **layer: Any,
) -> Peak:
    """Bytes at the peak of every micro-batch of a step but the first.

    In the first one there are no gradients yet. Without checkpoints, the peak comes when the loss
    is differentiated. With checkpoints, it is the largest of three moments: that one; the end of
    the forward pass, until which autocast keeps the copies of all weights; and the moment when the
    backward pass of the last segment begins, whose activations have just been computed again.

    Args:
        config: The model.
        sequences: Sequences of the micro-batch on this device.
        recipe: The dtypes of weights, gradients and states.
        segments: Checkpointed segments; 0 for no activation checkpointing.
        layer: Options of `layer_bytes`.
    """
    parameters = accounting.transformer_parameters(cast(Any, config))
    tokens, d = sequences * config.context_length, config.d_model
    each = layer_bytes(config, tokens, recipe, **layer)
    head = tokens * d * (stream_bytes(recipe) + BF16)
    autocast = recipe.parameter == torch.float32
    vocabulary = config.vocab_size * d
    of_head = BF16 * vocabulary * autocast  # the LM head's copy; the embedding needs none
    of_layers = BF16 * (parameters - (2 - config.tied_embeddings) * vocabulary) * autocast

    def alive(copies: int, layers: int, head: int, logit: int) -> Peak:
        return Peak(
            weights=recipe.parameter.itemsize * parameters,
            gradients=recipe.gradient.itemsize * parameters,
            moments=sum(dtype.itemsize for dtype in recipe.optimizer_state) * parameters,
            master=(recipe.master.itemsize if recipe.master else 0) * parameters,
            copies=copies,
            layers=layers,
            head=head,
            logits=logit * tokens * config.vocab_size,
        )

    if not segments:
        return alive(of_layers + of_head, config.num_layers * each, head, LOGIT)
    inputs = segments * checkpoint_bytes(config, tokens, recipe)
    again = -(-config.num_layers // segments)  # layers of the longest segment
    # The gradient of the segment's result, its cast, and those of the last product's two factors.
    upstream = tokens * d * (stream_bytes(recipe) + BF16 * autocast)
    products = BF16 * config.d_ff * (tokens + d)
    copies = again * (of_layers // config.num_layers)
    moments = (
        alive(of_head, inputs, head, LOGIT),
        alive(of_layers + of_head, inputs, head, FORWARD_LOGIT),
        alive(copies, inputs + again * each + upstream + products, head=0, logit=0),
    )
    return max(moments, key=lambda moment: moment.total)
