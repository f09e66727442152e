"""The bytes of a micro-batch, compared with real steps of a small model.

What autograd saves is counted by hooks. The peak is counted by following every storage that an
operation reads or makes until it is freed.
"""

from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from grader.solutions.reference.activation_checkpointing import checkpoint, saved_activation_bytes
from grader.solutions.reference.flop_counting import TransformerConfig
from grader.solutions.reference.resource_accounting import TrainingRecipe
from handout.site import micro_batch

FP32, BF16 = torch.float32, torch.bfloat16
AUTOCAST = TrainingRecipe(FP32, FP32, (FP32, FP32))
PURE = TrainingRecipe(BF16, BF16, (FP32, FP32))
RECIPES = {"autocast": AUTOCAST, "bfloat16 weights": PURE}
SEQUENCES = 4


def config(**changed):
    """A small model whose logits are large, as those of language models are."""
    sizes = {
        "vocab_size": 2048,
        "context_length": 64,
        "num_layers": 3,
        "d_model": 128,
        "num_heads": 4,
        "d_ff": 512,
        "tied_embeddings": True,
    }
    return TransformerConfig(**{**sizes, **changed})


class FFN(nn.Module):
    """Two matrices, or three with a gate."""

    def __init__(self, d, d_ff, gated):
        super().__init__()
        self.gate = nn.Linear(d, d_ff, bias=False) if gated else None
        self.up, self.down = nn.Linear(d, d_ff, bias=False), nn.Linear(d_ff, d, bias=False)

    def forward(self, x):
        """Through the wide features and back."""
        if self.gate is None:
            return self.down(F.gelu(self.up(x)))
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    """A layer with pre-norms, and with one matrix for q, k and v or three."""

    def __init__(self, sizes, projections, fused_attention):
        super().__init__()
        d, d_ff = sizes.d_model, sizes.d_ff
        self.sizes, self.fused_attention = sizes, fused_attention
        self.norms = nn.ModuleList(nn.LayerNorm(d, bias=False) for _ in range(2))
        self.widths = [sizes.query_width, sizes.kv_width, sizes.kv_width]
        outputs = [sum(self.widths)] if projections == 1 else self.widths
        self.qkv = nn.ModuleList(nn.Linear(d, width, bias=False) for width in outputs)
        self.out = nn.Linear(sizes.query_width, d, bias=False)
        ffns = sizes.experts + sizes.shared_experts
        self.ffns = nn.ModuleList(FFN(d, d_ff, sizes.gated_ffn) for _ in range(ffns))
        self.router = nn.Linear(d, sizes.experts, bias=False) if sizes.experts > 1 else None

    def attention(self, x):
        """Causal attention, fused or by hand."""
        normed = self.norms[0](x)
        if len(self.qkv) == 1:
            parts = self.qkv[0](normed).split(self.widths, dim=-1)
        else:
            parts = [linear(normed) for linear in self.qkv]
        width = self.sizes.query_width // self.sizes.num_heads
        q, k, v = (part.unflatten(-1, (-1, width)).transpose(1, 2) for part in parts)
        if self.fused_attention:
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        else:
            mixed = torch.softmax(q @ k.transpose(-1, -2), -1) @ v
        return self.out(mixed.transpose(1, 2).flatten(-2))

    def forward(self, x):
        """The residual stream after the layer."""
        x = x + self.attention(x)
        normed = self.norms[1](x)
        if self.router is None:
            return x + self.ffns[0](normed)
        rows = normed.flatten(0, 1)
        weights, chosen = self.router(rows).softmax(-1).topk(self.sizes.active_experts)
        mixed = torch.zeros_like(rows)
        for number, expert in enumerate(self.ffns):
            if number < self.sizes.experts:
                at, choice = (chosen == number).nonzero(as_tuple=True)
                result = weights[at, choice, None] * expert(rows[at])
                mixed = mixed.index_put((at,), result.to(mixed.dtype), accumulate=True)
            else:
                mixed = mixed + expert(rows)
        return x + mixed.view_as(x)


class Model(nn.Module):
    """A language model, whose layers may be in segments with the reference's `checkpoint`."""

    def __init__(self, sizes, projections=1, segments=0):
        super().__init__()
        self.embedding = nn.Embedding(sizes.vocab_size, sizes.d_model)
        self.blocks = nn.ModuleList(
            Block(sizes, projections, fused_attention=True) for _ in range(sizes.num_layers)
        )
        self.norm = nn.LayerNorm(sizes.d_model, bias=False)
        self.layers_of_a_segment = segments and -(-sizes.num_layers // segments)

    def forward(self, tokens):
        """The logits."""
        x = self.embedding(tokens)
        if each := self.layers_of_a_segment:
            for start in range(0, len(self.blocks), each):
                x = checkpoint(nn.Sequential(*self.blocks[start : start + each]), x)
        else:
            x = nn.Sequential(*self.blocks)(x)
        return F.linear(self.norm(x), self.embedding.weight)


class Live(TorchDispatchMode):
    """Counts the bytes of all storages that are alive after each operation."""

    def __init__(self, tensors):
        super().__init__()
        self.storages, self.peak = {}, 0
        self._follow(tensors)

    def _follow(self, values):
        for value in tree_leaves(values):
            if isinstance(value, torch.Tensor):
                storage = value.untyped_storage()
                self.storages.setdefault(
                    storage._cdata, (StorageWeakRef(storage), storage.nbytes())
                )

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """Run the operation, and count."""
        result = func(*args, **(kwargs or {}))
        self._follow((args, kwargs, result))
        alive = {key: of for key, of in self.storages.items() if not of[0].expired()}
        self.storages, self.peak = alive, max(self.peak, sum(size for _, size in alive.values()))
        return result


def casting(recipe):
    """Autocast for float32 weights, nothing for bfloat16 weights."""
    return torch.autocast("cpu", BF16) if recipe is AUTOCAST else nullcontext()


def step_peak(sizes, recipe, sequences=SEQUENCES, **options):
    """The bytes alive at the peak of a second micro-batch, without the optimizer's states."""
    torch.manual_seed(0)
    model = Model(sizes, **options).to(recipe.parameter)
    tokens, targets = torch.randint(sizes.vocab_size, (2, sequences, sizes.context_length)).unbind()

    def loss():
        with casting(recipe):
            return F.cross_entropy(model(tokens).flatten(0, 1).float(), targets.flatten())

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


@pytest.mark.parametrize("fused_attention", [True, False])
@pytest.mark.parametrize("gated_ffn", [True, False])
@pytest.mark.parametrize("projections", [1, 3])
@pytest.mark.parametrize("recipe", RECIPES)
def test_a_layer_keeps_what_the_formula_says(recipe, projections, gated_ffn, fused_attention):
    """To the byte, apart from the statistics of norms and of attention.

    On a CPU autocast runs softmax in bfloat16, on a GPU in float32, which keeps 4 bytes more for
    each score.
    """
    sizes, recipe = config(gated_ffn=gated_ffn), RECIPES[recipe]
    block = Block(sizes, projections, fused_attention).to(recipe.parameter)
    x = torch.randn(SEQUENCES, 64, 128, dtype=recipe.parameter, requires_grad=True)

    def forward():
        with casting(recipe):
            return block(x)

    weights = list(block.parameters())
    kept = saved_activation_bytes(forward, exclude=weights)
    tokens, scores = SEQUENCES * 64, SEQUENCES * 4 * 64**2
    statistics = tokens * 2 * 2 * recipe.parameter.itemsize
    if fused_attention:
        statistics += tokens * 4 * sizes.num_heads
    on_a_gpu = 0 if fused_attention else 4 * scores
    copies = 2 * sum(weight.numel() for weight in weights if weight.dim() == 2)
    autocast = (copies - on_a_gpu) * (recipe is AUTOCAST)
    expected = micro_batch.layer_bytes(
        sizes, tokens, recipe, fused_attention=fused_attention, projections=projections
    )
    assert kept == expected + statistics + autocast


@pytest.mark.parametrize("gated_ffn", [True, False])
@pytest.mark.parametrize("recipe", RECIPES)
def test_a_layer_of_today_keeps_what_the_formula_says(recipe, gated_ffn):
    """Up to the statistics, and what a router keeps: a few numbers for each token and choice."""
    experts = {"experts": 6, "active_experts": 2, "shared_experts": 1}
    heads, recipe = {"kv_heads": 2, "head_width": 48}, RECIPES[recipe]
    sizes = config(**heads, **experts, gated_ffn=gated_ffn)
    block = Block(sizes, 3, fused_attention=True).to(recipe.parameter)
    x = torch.randn(SEQUENCES, 64, 128, dtype=recipe.parameter, requires_grad=True)

    def forward():
        with casting(recipe):
            return block(x)

    weights, tokens = list(block.parameters()), SEQUENCES * 64
    kept = saved_activation_bytes(forward, exclude=weights)
    copies = 2 * sum(weight.numel() for weight in weights if weight.dim() == 2)
    expected = micro_batch.layer_bytes(sizes, tokens, recipe, projections=3)
    left_out = kept - expected - copies * (recipe is AUTOCAST)
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


# Which moment is the peak, for a model of 8 layers: the size that makes it so.
MOMENTS = {
    "the loss": ({"vocab_size": 8192}, 16, 8),
    "the loss, long segments": ({"vocab_size": 8192}, 16, 2),
    "the end of the forward pass": ({"vocab_size": 2048}, 1, 4),
    "a segment": ({"vocab_size": 64, "context_length": 256}, 8, 8),
    "a long segment": ({"vocab_size": 64, "context_length": 256}, 8, 2),
}


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("recipe", RECIPES)
def test_with_checkpoints_the_peak_is_the_largest_of_three_moments(recipe, moment):
    """To the byte where the loss is largest, and within 1 % where a segment is."""
    changed, sequences, segments = MOMENTS[moment]
    sizes, recipe = config(num_layers=8, **changed), RECIPES[recipe]
    parts = micro_batch.peak(sizes, sequences, recipe, segments=segments)
    layers = 0 if parts.logits else 8 // segments
    left_out = not_in_the_formula(sizes, recipe, sequences, layers)
    measured = step_peak(sizes, recipe, sequences, segments=segments)
    expected = parts.total - parts.moments + left_out
    assert abs(measured - expected) < (4096 if parts.logits else 0.01 * measured)
    by_segment = moment.endswith("segment")
    assert (parts.logits == 0) == by_segment or recipe is PURE
