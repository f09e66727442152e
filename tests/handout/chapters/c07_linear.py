"""Chapter 7: linear layers, their initial values and their parameters."""

import math
from collections.abc import Callable
from itertools import pairwise

import torch

from grader.solutions.reference import flop_counting as fc
from grader.solutions.reference import linear as li
from grader.solutions.reference import resource_accounting as ra
from handout.site import wren
from tests.handout.chapters.c05_resource_accounting import GPT3
from tests.handout.page_figures import Figures, n

BOUND = 3  # in standard deviations
BEYOND = math.erfc(BOUND / math.sqrt(2))  # the share of a normal distribution beyond the bound
# Simonyan and Zisserman (2015): networks A to E have 11 to 19 layers. The convolutions of network
# B, from the second to the tenth, have these numbers of filters of 3 × 3.
VGG_LAYERS = 11, 19
VGG_FILTERS = 64, 128, 128, 256, 256, 512, 512, 512, 512
VGG_SHRUNK = 1.7e4  # for a standard deviation of 0.01, by He et al. (2015), section 2.2
FFN = GPT3.d_model, GPT3.d_ff, GPT3.d_model


def seeded(make: Callable[[], torch.nn.Module]) -> torch.nn.Module:
    """A module with reproducible initial values."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return make()


class Chapter(Figures):
    def costs(self) -> None:
        size = ra.transformer_parameters(GPT3)
        inside = size - GPT3.vocab_size * GPT3.d_model
        self.gives(gpt3_size=size, inside_layers=100 * inside / size)
        t, i, o = 5, 3, 7
        self.gives(product_flops=fc.linear_flops(t, i, o) // (t * i * o))
        ffn = li.count_parameters(li.MLP(FFN, device="meta"))
        self.gives(ffn_gb=ffn * torch.float32.itemsize / 1e9)

    def first_values(self) -> None:
        shapes = [(256, 2048), (1024, 512)]
        layers = [
            (i, seeded(lambda i=i, o=o: li.Linear(i, o, dtype=torch.float64))) for i, o in shapes
        ]
        holds = []
        for i, layer in layers:
            weight = layer.weight.detach()
            x = torch.randn(
                2000, i, dtype=torch.float64, generator=torch.Generator().manual_seed(1)
            )
            holds.append(abs((layer(x).var() / (i * weight.var())).item() - 1) < 0.05)
            assert abs(weight.std() * math.sqrt(i) - truncated_std()) < 0.005
        self.formula("output_variance", r"\text{in} \cdot \sigma^2", holds)
        self.gives(variance=f"σ{n('²')}")
        (unit,) = {round(i * (1 / math.sqrt(i)) ** 2, 9) for i, _ in layers}
        self.gives(kept_variance=unit)
        signal = torch.linspace(-1, 1, 1001, dtype=torch.float64)
        kept = (signal.relu().square().mean() / signal.square().mean()).item()
        self.gives(relu_variance=1 / kept)
        depth, width = 20, 1024
        # The factor by which a layer multiplies its input's standard deviation is σ√width.
        small, large = (sigma * math.sqrt(width) for sigma in (0.02, 0.05))
        self.gives(width=width, small_sigma=0.02, shrink=small, shrunk=small**depth)
        self.gives(large_sigma=0.05, grow=large, grown=large**depth)

    def truncation(self) -> None:
        share = n(100 * BEYOND, ".2f")
        weights = GPT3.d_model * GPT3.d_ff
        self.gives(beyond_share=share, ffn_weights=weights, beyond_millions=weights * BEYOND / 1e6)
        self.gives(bound=BOUND)
        inputs = 4
        sigma = 1 / math.sqrt(inputs)
        weight = seeded(lambda: li.Linear(inputs, 20_000)).weight
        assert 0.99 < weight.abs().max() / (BOUND * sigma) <= 1
        self.gives(inputs=inputs, sigma=sigma, largest_weight=BOUND * sigma)
        self.gives(smaller_std=100 * (1 - truncated_std()))
        std = 0.02
        self.gives(std=std, cut=BOUND * std, cuts_nothing=BOUND / std)

    def story(self) -> None:
        sigma = 0.01
        kept = [math.sqrt(2 / (9 * filters)) for filters in VGG_FILTERS]
        shrunk = math.prod(each / sigma for each in kept)
        assert abs(shrunk / VGG_SHRUNK - 1) < 0.02
        self.gives(vgg_shallow=VGG_LAYERS[0], vgg_deep=VGG_LAYERS[1], vgg_sigma=sigma)
        self.gives(vgg_shrunk=shrunk)

    def worked(self) -> None:
        layer = li.Linear(2, 1)
        layer.load_state_dict({"weight": torch.tensor([[2.0, 3.0]])})
        x = torch.tensor([1.0, 10.0])
        self.gives(w=layer.weight, x=x, w_times_x=(torch.stack([layer.weight[0], x]).T, layer(x)))
        dims, batch = (4, 3, 2), 8
        model = li.MLP(dims)
        shapes = [tuple(p.shape) for p in model.parameters()]
        total = li.count_parameters(model)
        bytes_taken = sum(p.numel() * p.element_size() for p in model.parameters())
        flops = fc.mlp_flops(batch, dims)
        self.gives(mlp_sizes=dims, mlp_shapes=shapes)
        self.gives(mlp_parameters=(shapes, total), mlp_bytes=bytes_taken)
        self.gives(mlp_flops=(2, batch, total, flops))
        next(model.parameters()).requires_grad_(False)
        self.gives(trainable=li.count_parameters(model, trainable_only=True), all_parameters=total)

    def model(self) -> None:
        config = wren.WREN
        layers, d, ff = config.num_layers, config.d_model, config.d_ff
        attention, ffn, embedding = layers * 4 * d**2, layers * 2 * d * ff, config.vocab_size * d
        self.gives(wren_attention=(layers, 4, d**2, attention), wren_ffn=(layers, 2, d, ff, ffn))
        self.gives(wren_embedding=(config.vocab_size, d, embedding))
        for name, part in (("attention", attention), ("ffn", ffn), ("embedding", embedding)):
            self.gives(**{f"wren_{name}_share": 100 * part / wren.PARAMETERS})
        vocabulary, medium = GPT3.vocab_size, 1024
        tied = torch.nn.Embedding(vocabulary, medium, device="meta").weight
        self.gives(tied_vocabulary=vocabulary, tied_width=medium)
        self.gives(tied_parameters=(vocabulary, medium, tied.numel()))
        self.gives(seen_tied=53.6, seen_tied_other=51.9, wren_sigma=1 / math.sqrt(d))
        self.gives(wren_sigma_down=1 / math.sqrt(ff))

    def exercises(self) -> None:
        sizes = (10, 20, 20, 5)
        total = li.count_parameters(li.MLP(sizes))
        self.gives(ex_sizes=sizes, ex_parameters=(list(pairwise(sizes)), total))
        head = wren.WREN.vocab_size * wren.WREN.d_model
        each = sum(4 for _ in ("parameter", "gradient", "first moment", "second moment"))
        self.gives(ex_untied=head, ex_untied_total=wren.PARAMETERS + head, ex_bytes=each)
        self.gives(ex_untied_gb=each * head / 1e9, ex_gated=round(wren.WREN.d_ff * 2 / 3))
        default = seeded(lambda: torch.nn.Linear(1024, 1024, bias=False)).weight
        variance = round(1 / (1024 * default.var().item()), 1)
        sublayers = 2 * wren.WREN.num_layers
        self.gives(default_variance=variance, default_shrunk=variance ** (-20 / 2))
        self.gives(ex_sublayers=sublayers, ex_stream=math.sqrt(1 + sublayers))


def truncated_std() -> float:
    """The standard deviation of a standard normal distribution, truncated at ±BOUND."""
    density = math.exp(-(BOUND**2) / 2) / math.sqrt(2 * math.pi)
    return math.sqrt(1 - 2 * BOUND * density / (1 - BEYOND))
