"""The bytes of a micro-batch, compared with real steps of a small model.

What autograd saves is counted by hooks. The peak is counted by following every storage that an
operation reads or makes until it is freed.
"""

import json
from dataclasses import replace
from itertools import product

import pytest
import torch

from grader.solutions.reference.activation_checkpointing import saved_activation_bytes
from grader.solutions.reference.flop_counting import TransformerConfig
from handout.site import calculator_formulas, measure_wren, micro_batch, wren
from handout.site.measure_wren import Block, Live, Model, a_micro_batch
from tests.grader.sampling import every

BF16 = torch.bfloat16
AUTOCAST, PURE = calculator_formulas.FULL, calculator_formulas.SLIM
RECIPES = {"autocast": AUTOCAST, "bfloat16 weights": PURE}
SEQUENCES = 4


def config(**changed):
    """A small model whose logits are large, as those of language models are."""
    return replace(TransformerConfig(2048, 64, 3, 128, 4, 512, tied_embeddings=True), **changed)


def kept_by_a_layer(sizes, recipe, projections, fused):
    """The bytes that a layer keeps for its backward pass, without autocast's copies of matrices."""
    block = Block(sizes, projections, fused).to(recipe.parameter)
    x = torch.randn(SEQUENCES, 64, 128, dtype=recipe.parameter, requires_grad=True)

    def forward():
        with torch.autocast("cpu", BF16, enabled=recipe is AUTOCAST):
            return block(x)

    weights = list(block.parameters())
    copies = 2 * sum(weight.numel() for weight in weights if weight.dim() == 2)
    return saved_activation_bytes(forward, exclude=weights) - copies * (recipe is AUTOCAST)


def step_peak(sizes, recipe, sequences=SEQUENCES, **options):
    """The bytes alive at the peak of a second micro-batch, without the optimizer's states."""
    torch.manual_seed(0)
    model = Model(sizes, **options).to(recipe.parameter)
    loss = a_micro_batch(model, sizes, sequences)
    weights = list(model.parameters())
    for weight in weights:  # those of the first micro-batch
        weight.grad = torch.zeros_like(weight)
    with Live([weights, [weight.grad for weight in weights]]) as live:
        loss().backward()
    gains = sum(weight.numel() for weight in weights if weight.dim() == 1)
    return live.peak - 2 * gains * recipe.parameter.itemsize


def not_in_the_formula(sizes, recipe, sequences=SEQUENCES, layers=None):
    """Bytes of a micro-batch that the formula leaves out.

    These are the mean and deviation of each norm, the log-sum-exp of attention, and the token ids
    and targets. With checkpoints, only the layers that are computed again have them.
    """
    tokens = sequences * sizes.context_length
    layers = sizes.num_layers if layers is None else layers
    norms = (2 * layers + 1) * 2 * recipe.parameter.itemsize
    return tokens * (norms + layers * 4 * sizes.num_heads + 2 * 8)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("gated_ffn", [True, False])
@pytest.mark.parametrize("projections", [1, 3])
@pytest.mark.parametrize("recipe", RECIPES)
def test_a_layer_keeps_what_the_formula_says(recipe, projections, gated_ffn, fused):
    """To the byte, apart from the statistics of norms and of attention.

    On a CPU autocast runs softmax in bfloat16, on a GPU in float32, which keeps 4 bytes more for
    each score.
    """
    sizes, recipe = config(gated_ffn=gated_ffn), RECIPES[recipe]
    tokens, scores = SEQUENCES * 64, SEQUENCES * 4 * 64**2
    statistics = tokens * 2 * 2 * recipe.parameter.itemsize
    if fused:
        statistics += tokens * 4 * sizes.num_heads
    on_a_gpu = 4 * scores * (recipe is AUTOCAST and not fused)
    expected = micro_batch.layer_bytes(sizes, tokens, recipe, fused=fused, projections=projections)
    kept = kept_by_a_layer(sizes, recipe, projections, fused)
    assert kept == expected + statistics - on_a_gpu


@pytest.mark.parametrize("gated_ffn", [True, False])
@pytest.mark.parametrize("recipe", RECIPES)
def test_a_layer_of_today_keeps_what_the_formula_says(recipe, gated_ffn):
    """Up to the statistics, and what a router keeps: a few numbers for each token and choice."""
    experts = {"experts": 6, "active_experts": 2, "shared_experts": 1}
    heads, recipe = {"kv_heads": 2, "head_width": 48}, RECIPES[recipe]
    sizes, tokens = config(**heads, **experts, gated_ffn=gated_ffn), SEQUENCES * 64
    expected = micro_batch.layer_bytes(sizes, tokens, recipe, projections=3)
    left_out = kept_by_a_layer(sizes, recipe, 3, fused=True) - expected
    statistics = tokens * (4 * recipe.parameter.itemsize + 4 * sizes.num_heads)
    assert 0 < left_out - statistics < tokens * (8 * sizes.experts + 2 * 40)


@pytest.mark.parametrize("projections", [1, 3])
@pytest.mark.parametrize("recipe", RECIPES)
def test_the_peak_of_a_step_is_the_formulas(recipe, projections):
    """To the byte but for the scalars of the loss."""
    sizes, recipe = config(), RECIPES[recipe]
    parts = micro_batch.peak(sizes, SEQUENCES, recipe, projections=projections)
    expected = parts.total - parts.moments + not_in_the_formula(sizes, recipe)
    assert 0 <= step_peak(sizes, recipe, projections=projections) - expected < 4096


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize(("vocabulary", "segments"), [(2048, 0), (2048, 3), (16, 3)])
def test_an_embedding_of_its_own_takes_only_weights_gradients_and_moments(
    recipe, vocabulary, segments
):
    """It is looked up, not multiplied, so autocast makes no copy of it."""
    sizes, recipe = config(vocab_size=vocabulary), RECIPES[recipe]
    tied = micro_batch.peak(sizes, SEQUENCES, recipe, segments=segments)
    assert (tied.logits == 0) == (vocabulary == 16), "the peak is that of a segment"
    sizes = replace(sizes, tied_embeddings=False)
    more = micro_batch.peak(sizes, SEQUENCES, recipe, segments=segments)
    added, bytes_each = sizes.vocab_size * sizes.d_model, recipe.parameter.itemsize
    assert more.weights - tied.weights == more.gradients - tied.gradients == added * bytes_each
    assert more.moments - tied.moments == 8 * added
    assert more[3:] == tied[3:]


# Which moment is the peak, for a model of 8 layers or 2: the size that makes it so.
MOMENTS = {
    "the loss": ({"vocab_size": 8192}, 4, 8),
    "the loss, long segments": ({"vocab_size": 8192}, 4, 2),
    "the end of the forward pass": ({"vocab_size": 2048}, 1, 4),
    "a segment": ({"vocab_size": 64, "context_length": 256}, 4, 8),
    "a long segment": ({"vocab_size": 64, "context_length": 256}, 4, 2),
}
# The gradient of a matrix matters here, which autocast makes wider a little later.
WIDE = {"a wide segment": ({"vocab_size": 64, "num_layers": 2, "d_ff": 4096}, 1, 2)}


@pytest.mark.parametrize(
    ("recipe", "moment"), [*every(2, product(RECIPES, MOMENTS)), ("bfloat16 weights", *WIDE)]
)
def test_with_checkpoints_the_peak_is_the_largest_of_three_moments(recipe, moment):
    """To the byte where the loss is largest, and within 1 % where a segment is."""
    changed, sequences, segments = (MOMENTS | WIDE)[moment]
    sizes, recipe = config(**{"num_layers": 8} | changed), RECIPES[recipe]
    parts = micro_batch.peak(sizes, sequences, recipe, segments=segments)
    layers = 0 if parts.logits else sizes.num_layers // segments
    left_out = not_in_the_formula(sizes, recipe, sequences, layers)
    measured = step_peak(sizes, recipe, sequences, segments=segments)
    expected = parts.total - parts.moments + left_out
    assert abs(measured - expected) < (4096 if parts.logits else 0.01 * measured)
    by_segment = moment.endswith("segment")
    assert (parts.logits == 0) == by_segment or recipe is PURE


def recorded():
    return json.loads(measure_wren.RECORD.read_text(encoding="utf-8"))


def test_the_recorded_micro_batch_of_wren_is_the_formulas():
    """To the byte but for the scalars of the loss. The page shows the record."""
    record, gains = recorded(), 49 * wren.WREN.d_model
    left_out = not_in_the_formula(wren.WREN, AUTOCAST, wren.MICRO_BATCH)
    assert 0 <= record["peak"] - (wren.PEAK.total + left_out + 16 * gains) < 4096
    assert record["products"] == 6 * wren.PARAMETERS * wren.MICRO_BATCH * 1024
    page = measure_wren.PAGE.read_text(encoding="utf-8")
    assert measure_wren.filled(page, record) == page
    assert "[12.3]{#measured_adamw_ms}" in measure_wren.filled(page, record | {"adamw_ms": 12.34})


@pytest.mark.proof
def test_the_record_can_be_measured_again():
    again = measure_wren.on_a_cpu(wren.WREN, wren.MICRO_BATCH)
    assert {name: recorded()[name] for name in again} == again


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gives_the_rest():
    found = measure_wren.on_a_gpu(config(), 2)
    assert set(found) | set(recorded()) >= {*measure_wren.SHOWN}
    assert min(found.values()) > 0
