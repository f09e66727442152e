"""Bytes on a device, at the peak of one micro-batch and of a cache of keys and values.

The model is a decoder-only transformer with pre-norms, no biases and no dropout, trained with
AdamW. Its matrix products run in bfloat16. The residual stream has the dtype of the weights: under
autocast the weights are float32, so the stream and the inputs of the norms are float32 too, and
autocast keeps a bfloat16 copy of the weights until the backward pass. With bfloat16 weights there
are no copies. The loss is computed in float32.

The formulas are those of the calculator `training-memory` in handout/calculators.toml.
tests/handout/test_micro_batch.py runs a real step of a small model, and compares what it keeps, and
its peak, with these functions to the byte.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch

from grader.solutions.reference import resource_accounting as accounting
from grader.solutions.reference.flop_counting import TransformerConfig
from handout.site import calculator_formulas

# The fields of the calculators by the attributes of a model, but for the heads.
FIELDS = {
    "vocab_size": "vocabulary", "num_layers": "layers", "d_model": "d", "num_heads": "heads",
    "d_ff": "d_ff", "experts": "experts", "active_experts": "active", "shared_experts": "shared",
    "gated_ffn": "gated", "tied_embeddings": "tied",
}  # fmt: skip


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


def sizes_of(config: TransformerConfig) -> dict[str, int]:
    """The fields of the calculators for a model."""
    width = config.query_width // config.num_heads
    heads = {"kv_heads": config.kv_width // width, "head_width": width}
    return heads | {field: int(getattr(config, name)) for name, field in FIELDS.items()}


def _bytes(
    results: Iterable[str],
    config: TransformerConfig,
    tokens: float,
    recipe: accounting.TrainingRecipe,
    **options: int,
) -> list[int]:
    """Some results of the calculator."""
    given: dict[str, Any] = {
        **sizes_of(config),
        **options,
        "recipe": calculator_formulas.recipe_name(recipe),
    }
    given |= {"sequence": config.context_length, "batch": tokens / config.context_length}
    values, _ = calculator_formulas.evaluate(calculator_formulas.load()["training-memory"], given)
    return [round(values[result]) for result in results]


def layer_bytes(
    config: TransformerConfig, tokens: int, recipe: accounting.TrainingRecipe, **options: int
) -> int:
    """Bytes that one layer keeps for its backward pass.

    The statistics of norms (16 bytes per token for two layer norms in float32), the log-sum-exp of
    fused attention (4 bytes per token and head), and what a router keeps besides its input are left
    out. An expert is given a copy of its tokens, and the router's weights multiply its result.

    Args:
        config: The model.
        tokens: Tokens of the micro-batch.
        recipe: Its first dtype is that of the weights.
        options: `fused` is 0 if attention keeps its scores. Each takes 2 bytes, and under autocast
            on a GPU 6, because softmax runs in float32. `projections` counts the matrices for q, k
            and v, 1 or 3. Autocast casts the input of each matrix separately.
    """
    return _bytes(["a_layer"], config, tokens, recipe, **options)[0]


def cache_bytes(config: TransformerConfig, tokens: int, dtype: torch.dtype) -> int:
    """Bytes of the keys and values of so many tokens, which generating the next one reads."""
    return 2 * config.num_layers * config.kv_width * tokens * dtype.itemsize


def checkpoint_bytes(
    config: TransformerConfig, tokens: int, recipe: accounting.TrainingRecipe
) -> int:
    """Bytes that a checkpointed segment keeps: its input, a piece of the residual stream."""
    return _bytes(["inputs"], config, tokens, recipe, segments=1)[0]


def peak(
    config: TransformerConfig, sequences: int, recipe: accounting.TrainingRecipe, **options: int
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
        options: `segments` are checkpointed, none by default; and those of `layer_bytes`.
    """
    parts = ("weights", "gradients", "states", "master", "copies", "activations", "head", "logits")
    return Peak(*_bytes(parts, config, sequences * config.context_length, recipe, **options))


# Bytes per token and entry of the vocabulary when the loss is differentiated: its log-softmax, the
# gradient of that, and the gradient of the logits.
LOGIT = peak(TransformerConfig(1, 1, 1, 1, 1, 1), 1, calculator_formulas.FULL).logits
