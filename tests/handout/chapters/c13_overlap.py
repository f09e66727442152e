"""Chapter 13: copies that overlap kernels, and float32 under autocast."""

import json
import math
import re
from fractions import Fraction
from pathlib import Path

import torch
from torch import nn

from grader.solutions.reference import flop_counting as fc
from grader.solutions.reference import gpu
from grader.solutions.reference import precision as pr
from grader.solutions.reference import resource_accounting as ra
from handout.site import quizzes, wren
from handout.site.measure_wren import RECORD, cells
from handout.site.pictures import prefetching
from kit import gpu_stand_in
from tests.handout.chapters.c13_gpu import BF16, FP16, FP32, H100, PEAK
from tests.handout.page_figures import Figures, n

# PCI Express 5.0: each lane makes 32e9 transfers of one bit per second, and 128 of 130 bits are
# data.
PCIE_5 = 32e9 * 16 / 8 * 128 / 130
# The share that remains after the packets' headers, by a rule of thumb. Measured on servers with
# H100s, e.g. with NVIDIA's nvbandwidth.
PCIE = 55e9
MFU = wren.MFU


def listed(macro):
    """The operations in one of autocast's lists for a GPU, from torch's headers."""
    header = Path(torch.__file__).parent / "include" / "ATen" / "autocast_mode.h"
    text = header.read_text(encoding="utf-8")
    names = re.search(rf"#define {macro}\(_\)(.*?)\n\n", text, re.DOTALL)[1]
    return set(re.findall(r"_\((\w+)", names))


def drawn(depth, count):
    """The number of batches that the reference has drawn when it returns each batch."""
    asked = []
    with gpu_stand_in.gpu():
        source = (asked.append(1) or (torch.zeros(1), torch.zeros(1)) for _ in range(count))
        return [len(asked) for _ in gpu.Prefetcher(source, "cuda", depth)]


def model_bytes(convert):
    """Bytes per parameter of weight, gradient and AdamW's moments.

    The bytes are counted after a step on 64 × 64 weights.
    """
    model = nn.Linear(64, 64, bias=False)
    model = model.bfloat16() if convert else model
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.rand(4, 64)
    if convert:
        model(x.bfloat16()).sum().backward()
        optimizer.step()
    else:
        gpu.autocast_train_step(model, optimizer, nn.functional.mse_loss, x, x)
    weight = model.weight
    moments = [v.element_size() for v in optimizer.state[weight].values() if v.dim()]
    return weight.element_size(), weight.grad.element_size(), moments


class Chapter(Figures):
    def bottleneck(self) -> None:
        self.gives(pcie_generation=5, pcie_lanes=16, pcie_gbs=PCIE_5 / 1e9)
        self.gives(pcie_real_gbs=PCIE / 1e9, step_rule=fc.training_flops(1, 1), mfu=MFU)
        windows, context = wren.SEQUENCES // wren.DEVICES, wren.WREN.context_length
        text = 2 * windows * context * torch.int64.itemsize
        self.gives(windows=windows, context=context)
        self.row(text, fc.training_flops(wren.PARAMETERS, windows * context))
        # ViT-S/16 (Touvron et al. 2021): width 384, 12 layers, patches of 16 × 16 pixels.
        images, side, patch, width = 256, 224, 16, 384
        config = fc.TransformerConfig(1, 196, 12, width, 6, 4 * width, tied_embeddings=True)
        parameters, tokens = ra.transformer_parameters(config) - width, (side // patch) ** 2
        flops = fc.training_flops(parameters, images * tokens)
        numbers = images * 3 * side**2
        self.image_bytes = 4 * numbers
        self.gives(images=images, image=(3, side, side), image_parameters=parameters)
        self.gives(image_tokens=tokens)
        longer = self.row(self.image_bytes, flops)
        self.row(numbers, flops)
        self.gives(copy_percent=longer * 100)

    def row(self, count, flops):
        """A row of the table of batches: the copy's time as a share of the step."""
        copy, step = count / PCIE, flops / (MFU * PEAK)
        self.gives(copy_row=(count / 1e6, copy * 1000, step * 1000, copy / step))
        return copy / step

    def copies(self) -> None:
        """The picture; tests/grader/course/test_gpu_stand_in.py has what makes a copy late."""
        spans = {kind: prefetching.timeline(prefetch=kind) for kind in (False, True)}
        took = {s.what: 1000 * (s.stop - s.start) for s in spans[True]}
        copy, kernels = took["copies"], took["kernels"]
        assert len([s for s in spans[True] if s.what == "kernels"]) == 4  # "Four batches"
        starts = {kind: [s.start for s in spans[kind] if s.what == "kernels"] for kind in spans}
        each = {kind: 1000 * (found[-1] - found[-2]) for kind, found in starts.items()}
        assert abs(each[True] - max(copy, kernels)) < 1e-6
        assert 0 < each[False] - (copy + kernels) < 0.06  # launching and waking up
        formula = r"\max(\text{copy}, \text{compute}) \quad \text{instead of} \quad "
        self.formula(
            "overlap_formula", formula + r"\text{copy} + \text{compute}", each[True] < each[False]
        )
        assert not any(s.what == "waits" for s in spans[True])
        self.gives(copy_ms=copy, kernels_ms=kernels, depth=2)

    def depth(self) -> None:
        self.gives(poison=gpu_stand_in.POISON)
        depth = 2
        self.gives(depth=depth, batches_held=depth + 1)
        self.gives(held_mb=(depth + 1) * self.image_bytes / 1e6)
        count = 4
        for number, seen in enumerate(drawn(depth, count)):
            low, high = (min(number + 1 + ahead, count) for ahead in (1, depth))
            assert low <= seen <= high
            names = ["abcd"[:k] for k in (low, high)]
            waiting = [f"perhaps {c}" if c in names[1][low:] else c for c in names[1][number + 1 :]]
            cells = ["abcd"[number], *(" ".join(name) for name in names), ", ".join(waiting)]
            self.gives(handed_out=" | ".join(cells).rstrip())

    def autocast(self) -> None:
        lower, fp32 = listed("AT_FORALL_LOWER_PRECISION_FP"), listed("AT_FORALL_FP32")
        assert {"matmul", "linear", "conv2d", "scaled_dot_product_attention"} <= lower
        assert {"exp", "log", "pow", "layer_norm", "mse_loss", "nll_loss"} <= fp32
        assert {"softmax", "log_softmax", "sum"} <= listed("AT_FORALL_FP32_SET_OPT_DTYPE")
        linear = nn.Linear(3, 3)
        with torch.autocast("cpu", dtype=BF16):
            y = linear(torch.ones(1, 3))
            assert y.dtype == y.softmax(-1).dtype == nn.functional.gelu(y).dtype == BF16
            assert (y + torch.ones(1)).dtype == FP32
        y.float().sum().backward()
        assert linear.weight.grad.dtype == FP32
        assert torch.get_autocast_dtype("cuda") == FP16  # "on a GPU its default is float16"

    def steps(self) -> None:
        bf16 = pr.float_spec(BF16)
        step, least = 3e-4, 0.125
        weights = torch.arange(0x3D80, 0x4080).to(torch.int16).view(BF16)  # all from 0.0625 to 4
        still = (weights + step == weights) & (weights - step == weights)
        assert torch.equal(still, weights > least)
        self.gives(adamw_step=step, still_above=least)
        low = int(math.log2(bf16.smallest_subnormal)) - 1
        assert pr.underflows_to_zero(2.0**low, BF16)
        assert bf16.smallest_normal == pr.float_spec(FP32).smallest_normal
        scaler = torch.amp.GradScaler("cpu")
        assert scaler.get_backoff_factor() == 0.5  # "and halves"
        self.gives(bf16_limit=2.0**low)

    def example(self) -> None:
        weight, x, y, max_norm, rate = 1, 2, 1, 0.5, Fraction("0.001")
        output = weight * x
        loss, gradient = (output - y) ** 2, 2 * (output - y) * x
        after = weight - rate * Fraction(max_norm) * gradient / gradient
        self.gives(weight=weight, x=x, y=y, output=output)
        self.gives(loss=f"({n(output)} − {n(y)}){n('²')} = {n(loss)}")
        self.gives(gradient=(2, output, y, x, gradient), max_norm=max_norm)
        self.gives(scaled_to=min(max_norm, gradient), rate=rate, new_weight=float(after))

    def kept(self) -> None:
        plainly = ra.bytes_per_parameter(ra.TrainingRecipe(FP32, FP32, (FP32, FP32)))
        for name, convert in (("fp32_row", False), ("bf16_row", True)):
            weight, gradient, moments = model_bytes(convert)
            total = weight + gradient + sum(moments)
            self.gives(**{name: (weight, gradient, moments, total)})
        self.gives(adamw_bytes=plainly)

    def model(self) -> None:
        tokens = wren.MICRO_BATCH * wren.WREN.context_length
        flops = fc.training_flops(wren.PARAMETERS, tokens)
        self.gives(wren_micro_flops=flops, wren_micro_ms=1e3 * flops / (MFU * PEAK))
        kept = wren.PEAK.copies + wren.PEAK.layers + wren.PEAK.head
        kept += FP32.itemsize * tokens * wren.WREN.vocab_size  # the log-softmax
        product = wren.MICRO_BATCH * quizzes.parts_of(wren.WREN)["attention_scores"]
        self.gives(wren_micro_attention=7 * product, wren_micro_kept=kept / 1e9)
        self.gives(fused_products=7, plain_products=3 * 2)
        self.gives(wren_micro_peak=wren.PEAK.total / 1e9, held_bytes=BF16.itemsize)
        self.gives(wren_adamw_ms=1e3 * wren.OPTIMIZER_STEP_BYTES / H100.memory_bandwidth)
        record = json.loads(RECORD.read_text(encoding="utf-8"))
        self.gives(**{name: n(text) for name, text in cells(record).items()})
        self.gives(held_gb=BF16.itemsize * tokens * wren.WREN.vocab_size / 1e9)

    def exercises(self) -> None:
        rate, below = 1e-3, 2.0**-8
        assert torch.tensor(1 - rate).bfloat16() == 1 != torch.tensor(1 - below).bfloat16()
        silence = 5000
        weight = nn.Parameter(torch.ones(1, dtype=BF16))
        optimizer = torch.optim.AdamW([weight], lr=rate)
        beta, beta_squares = optimizer.defaults["betas"]
        bound = (1 - beta) / math.sqrt(1 - beta_squares)
        for step in range(silence + 1):
            weight.grad = torch.full_like(weight, float(step == silence))
            assert weight == 1
            optimizer.step()
        assert weight.item() == 1 - below
        self.gives(ex_rate=rate, ex_below=(2.0 ** (-8), below), ex_half=below / 2)
        self.gives(ex_bound=f"({n(1)} − β₁) / √({n(1)} − β₂) = {n(bound, '.2f')}")
        self.gives(ex_silence=silence, ex_moved=weight.item())
