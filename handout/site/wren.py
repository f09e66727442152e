"""Wren, the language model that the handout follows from its parameters to its bill.

It has the depth and width of the model that Brown et al. (2020) call GPT-3 XL, and a vocabulary of
32,000 tokens. That is large enough for every question of the course to matter, and small enough
that a group of students could pay for its training.
"""

from typing import Any, cast

import torch

from grader.solutions.reference import flop_counting as flops
from grader.solutions.reference import resource_accounting as accounting
from handout.site import calculator_formulas, micro_batch

WREN = flops.TransformerConfig(
    *(32_000, 1024),  # tokens of the vocabulary and of the context
    *(24, 2048, 16, 8192),  # layers, features of the residual stream, heads, features of the FFN
    tied_embeddings=True,
)
SEQUENCES = 512  # in the batch of one step
MICRO_BATCH = 8  # sequences that go through the model at a time
DEVICES = 8  # H100
MFU = 0.4  # between what PaLM and Llama 3 report
DOLLARS_PER_HOUR = 3.0  # for one device; the handout calls this an assumption

PARAMETERS = accounting.transformer_parameters(cast(Any, WREN))
TOKENS = 20 * PARAMETERS  # compute-optimal by Hoffmann et al. (2022)
STEP_TOKENS = SEQUENCES * WREN.context_length
STEPS = TOKENS // STEP_TOKENS
HEAD_WIDTH = WREN.d_model // WREN.num_heads
STEP_FLOPS = flops.training_flops(PARAMETERS, STEP_TOKENS)
HOURS = 24 * accounting.training_days(
    PARAMETERS, TOKENS, accounting.H100_SXM, torch.bfloat16, DEVICES, MFU
)
STEP_SECONDS = HOURS * 3600 / STEPS
DOLLARS = HOURS * DEVICES * DOLLARS_PER_HOUR

RECIPE = calculator_formulas.FULL
STATE_BYTES = accounting.bytes_per_parameter(RECIPE) * PARAMETERS  # weights, gradients, moments
CHECKPOINT_BYTES = STATE_BYTES - 4 * PARAMETERS  # the same without gradients
# AdamW reads weights, gradients and both moments, and writes all but the gradients.
OPTIMIZER_STEP_BYTES = 28 * PARAMETERS
CHECKPOINT_EVERY = 2000  # steps
# With fused attention and one matrix for q, k and v.
PEAK = micro_batch.peak(WREN, MICRO_BATCH, RECIPE)
