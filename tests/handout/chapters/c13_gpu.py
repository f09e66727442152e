"""Chapter 13: GPU memory, timing, copies that overlap kernels, and float32 under autocast."""

import json
import math
import re
import statistics
import time
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import torch
from torch import nn
from torch.optim.optimizer import _foreach_doc
from torch.utils._python_dispatch import TorchDispatchMode

from grader.solutions.reference import flop_counting as fc
from grader.solutions.reference import gpu
from grader.solutions.reference import precision as pr
from grader.solutions.reference import resource_accounting as ra
from handout.site import micro_batch, quizzes, wren
from handout.site.measure_wren import RECORD, cells
from handout.site.pictures import prefetching
from kit import gpu_stand_in
from tests.handout.page_figures import COURSE, HANDOUT, Figures, n, session

BF16, FP16, FP32, UINT8 = torch.bfloat16, torch.float16, torch.float32, torch.uint8
H100 = ra.H100_SXM
PEAK = H100.peak_flops[BF16]
HEADERS = Path(torch.__file__).parent / "include"
# PCI Express 5.0: each lane makes 32e9 transfers of one bit per second, and 128 of 130 bits are
# data.
PCIE_5 = 32e9 * 16 / 8 * 128 / 130
# The share that remains after the packets' headers, by a rule of thumb. Measured on servers with
# H100s, e.g. with NVIDIA's nvbandwidth.
PCIE = 55e9
MFU = wren.MFU
CODE = session("13_gpu.md")[1]  # what the page's own blocks define
# NVIDIA's H100 data sheet: 900 GB/s over NVLink, half of them in each direction.
NVLINK = 450e9
# A network card such as NVIDIA's ConnectX-7, of which a DGX H100 has one per GPU for computing.
CARD_GBIT = 400
CARD = CARD_GBIT * 1e9 / 8


class Temporaries(TorchDispatchMode):
    """Counts the bytes of the tensors that operators on lists of tensors create."""

    created = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """Run the operator."""
        result = func(*args, **(kwargs or {}))
        if isinstance(result, (list, tuple)):
            self.created += sum(t.nbytes for t in result)
        return result


def moved(function):
    """The kernels of a function of one tensor, and how often they read or write a tensor."""
    x = torch.rand(64)
    with CODE.Moved() as seen:
        function(x)
    return seen.kernels, Fraction(seen.moved, x.nbytes)


def step_temporaries(**kinds):
    """Bytes per parameter that a step of torch's AdamW creates."""
    weights = [nn.Parameter(torch.ones(10, 10)) for _ in range(3)]
    optimizer = torch.optim.AdamW(weights, **kinds)
    for weight in weights:
        weight.grad = torch.ones_like(weight)
    optimizer.step()
    with Temporaries() as seen:
        optimizer.step()
    return Fraction(seen.created, sum(weight.numel() for weight in weights))


def constant(name):
    """A constant of torch's allocators.

    It comes from torch's headers if they define it (2.9 and later), else from older sources.
    """
    header = HEADERS / "c10" / "core" / "AllocatorConfig.h"
    # CUDACachingAllocator.cpp, 2.6
    before = {"kMinBlockSize": 512, "kSmallBuffer": 2 * 2**20, "kSmallSize": 2**20}
    text = header.read_text(encoding="utf-8") if header.is_file() else ""
    found = re.search(rf"{name} = (\d+);", text)
    return int(found[1]) if found else before[name]


def listed(macro):
    """The operations in one of autocast's lists for a GPU, from torch's headers."""
    text = (HEADERS / "ATen" / "autocast_mode.h").read_text(encoding="utf-8")
    names = re.search(rf"#define {macro}\(_\)(.*?)\n\n", text, re.DOTALL)[1]
    return set(re.findall(r"_\((\w+)", names))


def measured(kind, kernel, calls=10):
    """Seconds per kernel call that a method of measuring shows on the stand-in."""
    with gpu_stand_in.gpu(kernel_seconds=[kernel] * calls) as device:
        started, shown = time.perf_counter(), []
        for _ in range(calls):
            before = time.perf_counter()
            device.kernel()
            if kind == "wait":
                torch.cuda.synchronize()
            shown.append(time.perf_counter() - before)
        torch.cuda.synchronize()
        return (
            (time.perf_counter() - started) / calls if kind == "all" else statistics.median(shown)
        )


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
    def beginning(self) -> None:
        """The stand-in, and the problems' points."""
        size, speed = 100, 1e9  # FLOPs of the product below, which is in a block of code
        flops = fc.matmul_flops((size, size), (size, size))
        assert flops == 2 * 10**6
        self.gives(asking_us=1e6 * gpu_stand_in.ASKING, waking_us=1e6 * gpu_stand_in.WAKING)
        self.gives(product_flops=(2, 10**6), product_speed=10.0 ** (round(math.log10(speed))))
        assert {p.device for p in COURSE.problems if p.module == "gpu"} == {"cuda"}

    def memory(self) -> None:
        """The three numbers of memory, and blocks."""
        block, segment, small = (
            constant(name) for name in ("kMinBlockSize", "kSmallBuffer", "kSmallSize")
        )
        self.gives(block=block, segment_mib=segment >> 20, small_mib=small >> 20)
        assert block == gpu_stand_in.BLOCK
        # should_split in CUDACachingAllocator.cpp: the rest of a large block is split off if it is
        # larger than kSmallSize.

    def worst_moment(self) -> None:
        """A chain of operations, and effects that spoil a difference."""
        with gpu_stand_in.gpu():
            x = torch.zeros(1000, 1000, device="cuda")
            found = {
                length: gpu.peak_memory(lambda length=length: self.chain(x, length))
                for length in (2, 4, 9)
            }
            raw = x.numel() * x.element_size()
        each = found[4].retained
        # "two tensors … however long …, in the end one"
        assert set(found.values()) == {gpu.PeakMemory(each, 2 * each, each)}
        blocks = math.ceil(raw / gpu_stand_in.BLOCK)
        assert blocks * gpu_stand_in.BLOCK == each
        self.gives(chain_bytes=raw, chain_blocks=(raw, gpu_stand_in.BLOCK, blocks))
        self.gives(block=gpu_stand_in.BLOCK, chain_each=each)
        # Workspaces of cuBLAS: CublasHandlePool.cpp, 2 · 4 MiB + 8 · 16 KiB, and 32 MiB for compute
        # capability 9.0.
        before, hopper = 2 * 4096 * 1024 + 8 * 16 * 1024, 8 * 4096 * 1024
        self.gives(cublas_mib=before / 2**20, cublas_hopper_mib=hopper >> 20)

    @staticmethod
    def chain(x, length):
        """A chain of operations, each with a new tensor as its result."""
        for _ in range(length):
            x = torch.sin(x)
        return x

    def left_out(self) -> None:
        """Memory of Wren that no formula counts."""
        assert "~ sizeof(params) more peak memory" in _foreach_doc
        roots = step_temporaries(foreach=True)
        assert step_temporaries(fused=True) == 0
        buckets = " ".join(nn.parallel.DistributedDataParallel.__doc__.split())
        assert "saved memory size will be equal to the total gradients size" in buckets
        self.bucket_mib = int(re.search(r"a default size of (\d+) MiB", buckets)[1])
        self.gives(buckets_gb=FP32.itemsize * wren.PARAMETERS / 1e9)
        self.gives(roots_gb=roots * wren.PARAMETERS / 1e9)
        self.gives(workspace_gb=8 * 4096 * 1024 / 1e9)  # an H100's, see worst_moment

    def clocks(self) -> None:
        """Four methods of measuring ten calls."""
        kernel, calls = 50e-6, 10
        asking, waking = 1e6 * gpu_stand_in.ASKING, 1e6 * gpu_stand_in.WAKING
        with gpu_stand_in.gpu(kernel_seconds=[kernel] * 13) as device:
            events = gpu.time_kernel(device.kernel, repeats=calls)
        alone, waiting, together = (
            measured(kind, kernel, calls) for kind in ("alone", "wait", "all")
        )
        took = 1e6 * kernel
        assert f"{events:.7f}" == f"{kernel:.7f}"
        assert f"{waiting:.7f}" == f"{gpu_stand_in.ASKING + kernel + gpu_stand_in.WAKING:.7f}"
        shared = (gpu_stand_in.ASKING + calls * kernel + gpu_stand_in.WAKING) / calls
        assert f"{together:.7f}" == f"{shared:.7f}"
        self.gives(kernel_us=took, alone_us=1e6 * alone, waiting_us=1e6 * waiting)
        self.gives(waiting_sum=(asking, took, waking), together_us=1e6 * together)
        self.gives(together_sum=(asking, calls, took, waking, calls), events_us=1e6 * events)
        brief = 1e-6
        with gpu_stand_in.gpu(kernel_seconds=[brief] * 13) as device:
            shown = gpu.time_kernel(device.kernel)
        self.gives(brief_us=1e6 * brief, brief_shown_us=1e6 * shown)

    def calls(self) -> None:
        """The median of several calls."""
        times = [2e-3] * 9 + [102e-3]
        with gpu_stand_in.gpu(kernel_seconds=[1.0, 1.0, 1.0, *times]) as device:
            median = gpu.time_kernel(device.kernel)
        usual, late = (n(round(seconds * 1000)) for seconds in (times[0], times[-1]))
        self.gives(usual_ms=usual, late_ms=late, mean_ms=statistics.mean(times) * 1000)
        self.gives(median_ms=median * 1000)
        self.gives(l2_mb=50)  # NVIDIA H100 Tensor Core GPU Architecture (2022), H100 SXM
        # He (2024), quoting his own output of 2022: mm_bench.py, cutlass_profiler,
        # cutlass_mm_bench.py and benchmark(zero_inputs).
        self.gives(story_year=2022, story_size=8192, story_peak=312, story_cublas=258)
        self.gives(story_profiler=288, story_cutlass=257, story_zeros=295)

    def mfu(self) -> None:
        """The MFU of one product, measured in a correct way and in incorrect ways."""
        size, seconds = 8192, 1.5e-3
        flops = fc.matmul_flops((size, size), (size, size))
        # The product is slow, so that other costs on the stand-in do not matter.
        small, speed = (60, 80, 100), 1e7
        device = SimpleNamespace(name="a GPU", peak_flops={FP32: 4 * speed})
        with gpu_stand_in.gpu(flops_per_second={FP32: speed}):
            found = gpu.measured_mfu(*small, FP32, device)
        took = fc.matmul_flops(small[:2], small[1:]) / speed
        by_hand = 2 * math.prod(small) / (took * 4 * speed)
        self.formula(
            "mfu_formula",
            r"\text{MFU} = \frac{2mkn}{\text{seconds} \cdot \text{peak FLOP/s}}",
            [abs(found / by_hand - 1) < 1e-3],
        )
        right = ra.mfu(flops, seconds, H100, BF16)
        self.gives(size=size, size_flops=(2, size**3, flops), peak=PEAK)
        self.gives(peak_ms=flops / PEAK * 1000, measured_ms=seconds * 1000, measured_mfu=right)
        self.gives(sparse_peak=2 * PEAK, clock_mfu=ra.mfu(flops, gpu_stand_in.ASKING, H100, BF16))
        self.gives(asking_us=1e6 * gpu_stand_in.ASKING, fp32_mfu=ra.mfu(flops, seconds, H100, FP32))
        self.gives(fp32_peak=H100.peak_flops[FP32], sparse_mfu=right / 2)
        self.gives(ms_mfu=ra.mfu(flops, seconds * 1000, H100, BF16))
        # TF32: 494.7e12 dense on an H100, by NVIDIA's data sheet, which is half of bfloat16's.
        assert torch.get_float32_matmul_precision() == "highest"
        assert not torch.backends.cuda.matmul.allow_tf32
        self.gives(tf32_mfu=PEAK / 2 / H100.peak_flops[FP32])

    def fusion(self) -> None:
        """GELU by hand and in one kernel, on the numbers of Wren's micro-batch."""
        kernels, passes = moved(CODE.gelu)
        one, fused = moved(lambda x: nn.functional.gelu(x, approximate="tanh"))
        assert (one, fused) == (1, 2)  # reads once, writes once
        rows, width = wren.MICRO_BATCH * wren.WREN.context_length, wren.WREN.d_ff
        each = BF16.itemsize * rows * width
        product = fc.matmul_flops((rows, wren.WREN.d_model), (wren.WREN.d_model, width)) / PEAK
        by_hand, in_one = (count * each / H100.memory_bandwidth for count in (passes, fused))
        assert in_one < product < by_hand
        self.gives(gelu_kernels=kernels, gelu_passes=int(passes), fused_passes=int(fused))
        self.gives(fused_kernels=one, gelu_tensor=(rows, width), gelu_gb=passes * each / 1e9)
        self.gives(gelu_ms=by_hand * 1000, gelu_product_ms=product * 1000)
        self.gives(gelu_fused_ms=in_one * 1000)

    def decoding(self) -> None:
        """Wren makes one token for each of several sequences with full contexts."""
        model, size = wren.WREN, BF16.itemsize
        weights = size * wren.PARAMETERS
        token = 2 * model.num_layers * model.d_model * size
        cache = model.context_length * token
        flops = fc.transformer_forward_flops(model, 1, model.context_length)
        # The last token's scores and values are those of a full sequence divided by its length.
        attention = (flops["attention_scores"] + flops["attention_values"]) // model.context_length
        assert attention == cache  # one FLOP per byte of cache
        per_token = fc.training_flops(wren.PARAMETERS, 1) // 3 + attention
        most = (H100.memory_bytes - weights) // cache
        for sequences in (1, 8, 64, most):
            read = weights + sequences * cache
            tokens_per_second = sequences * H100.memory_bandwidth / read
            self.gives(decode_sequences=sequences)
            self.gives(decode_row=(read / 1e9, sequences * per_token / read, tokens_per_second))
        ridge = ra.accelerator_intensity(H100, BF16)
        assert per_token / cache < ridge
        today, tokens = quizzes.LLAMA_70B, model.context_length
        parts = fc.transformer_forward_flops(today, 1, tokens)
        read = micro_batch.cache_bytes(today, tokens, BF16)
        of_token = (parts["attention_scores"] + parts["attention_values"]) // tokens
        assert of_token / read == today.num_heads / today.kv_heads
        limit = (2 * quizzes.multiplied(today) + of_token) / read
        self.gives(decode_today=n("Llama 3 70B"), decode_limit_today=limit)
        self.gives(decode_weights=weights)
        self.gives(cache_token=(2, model.num_layers, model.d_model, size, token))
        self.gives(cache_gb=cache / 1e9, cache_flops=size * attention // cache)
        self.gives(cache_intensity=attention // cache, decode_limit=per_token / cache)
        self.gives(device_intensity=ridge)

    def diagnosis(self) -> None:
        """The causes of a low MFU."""
        # NVIDIA, Matrix Multiplication Background User's Guide: on an A100, multiples of 128 bytes.
        multiple, odd = 128 // BF16.itemsize, 50_257
        text = (HANDOUT / "13_gpu.md").read_text(encoding="utf-8")
        self.gives(multiple=multiple, odd_size=odd)
        self.gives(padded_size=math.ceil(odd / multiple) * multiple)
        section = re.search("^## (\\S+) Several devices$", text, re.MULTILINE)[1]
        self.gives(section_devices=n(section))
        assert callable(torch.cuda.set_sync_debug_mode)
        assert callable(torch.cuda.memory._dump_snapshot)

    def bottleneck(self) -> None:
        """Text and images as data."""
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
        copy, kernels = (
            {f"{1000 * (s.stop - s.start):.7f}" for s in spans[True] if s.what == what}
            for what in ("copies", "kernels")
        )
        assert len(copy) == len(kernels) == 1
        copy, kernels = float(copy.pop()), float(kernels.pop())
        assert len([s for s in spans[True] if s.what == "kernels"]) == 4  # "Four batches"
        starts = {kind: [s.start for s in spans[kind] if s.what == "kernels"] for kind in spans}
        each = {kind: 1000 * (found[-1] - found[-2]) for kind, found in starts.items()}
        assert abs(each[True] - max(copy, kernels)) < 1e-6
        assert 0 < each[False] - (copy + kernels) < 0.06  # launching and waking up
        self.formula(
            "overlap_formula",
            r"\max(\text{copy}, \text{compute}) "
            r"\quad \text{instead of} \quad \text{copy} + \text{compute}",
            [each[True] < each[False]],
        )
        assert not any(s.what == "waits" for s in spans[True])
        self.gives(copy_ms=copy, kernels_ms=kernels, depth=2)

    def races(self) -> None:
        """What a race reads; tests/hidden/gpu_prefetch has one mistake for each precaution."""
        self.gives(poison=gpu_stand_in.POISON)

    def depth(self) -> None:
        """The number of batches in memory."""
        depth = 2
        self.gives(depth=depth, batches_held=depth + 1)
        self.gives(held_mb=(depth + 1) * self.image_bytes / 1e6)
        count = 4
        least, most = (
            [min(number + ahead, count) for number in range(1, count + 1)] for ahead in (1, depth)
        )
        got = drawn(depth, count)
        assert all(low <= seen <= high for low, seen, high in zip(least, got, most, strict=True))
        for number, (low, high) in enumerate(zip(least, most, strict=True)):
            names = ["abcd"[:k] for k in (low, high)]
            waiting = [f"perhaps {c}" if c in names[1][low:] else c for c in names[1][number + 1 :]]
            cells = ["abcd"[number], *(" ".join(name) for name in names), ", ".join(waiting)]
            self.gives(handed_out=" | ".join(cells).rstrip())

    def autocast(self) -> None:
        """The dtype in which each operation runs."""
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
        """The precision that weights and gradients lose."""
        bf16, fp16 = pr.float_spec(BF16), pr.float_spec(FP16)
        one = torch.tensor(1.0, dtype=BF16)
        below = math.log2(1 - torch.nextafter(one, torch.zeros_like(one)).item())
        assert below == int(below)
        self.gives(significant_bits=bf16.mantissa_bits + 1, below_one=(1, 2.0 ** (int(below))))
        step, least = 3e-4, 0.125
        weights = torch.arange(0x3D80, 0x4080).to(torch.int16).view(BF16)  # all from 0.0625 to 4
        still = (weights + step == weights) & (weights - step == weights)
        assert torch.equal(still, weights > least)
        self.gives(adamw_step=step, still_above=least)
        tiny = int(math.log2(fp16.smallest_subnormal)) - 1
        assert pr.underflows_to_zero(2.0**tiny, FP16)
        assert not pr.underflows_to_zero(2.0**tiny * 1.0001, FP16)
        low = int(math.log2(bf16.smallest_subnormal)) - 1
        assert pr.underflows_to_zero(2.0**low, BF16)
        assert bf16.smallest_normal == pr.float_spec(FP32).smallest_normal
        scaler = torch.amp.GradScaler("cpu")
        assert scaler.get_backoff_factor() == 0.5  # "and halves"
        self.gives(bf16_limit=2.0**low)

    def example(self) -> None:
        """A step computed by hand."""
        weight, x, y, max_norm, rate = 1, 2, 1, 0.5, Fraction("0.001")
        output = weight * x
        loss, gradient = (output - y) ** 2, 2 * (output - y) * x
        after = weight - rate * Fraction(max_norm) * gradient / gradient
        self.gives(weight=weight, x=x, y=y, output=output)
        self.gives(loss=f"({n(output)} − {n(y)}){n('²')} = {n(loss)}")
        self.gives(gradient=(2, output, y, x, gradient), max_norm=max_norm)
        self.gives(scaled_to=min(max_norm, gradient), rate=rate, new_weight=float(after))

    def kept(self) -> None:
        """Bytes per parameter."""
        plainly = ra.bytes_per_parameter(ra.TrainingRecipe(FP32, FP32, (FP32, FP32)))
        weight, gradient, moments = model_bytes(convert=False)
        assert weight + gradient + sum(moments) == plainly
        self.gives(fp32_row=(weight, gradient, moments, plainly))
        weight, gradient, moments = model_bytes(convert=True)
        total = weight + gradient + sum(moments)
        self.gives(bf16_row=(weight, gradient, moments, total))
        self.total = plainly

    def all_reduce(self) -> None:
        """The gradients' way around a ring, and how much of it is hidden."""
        devices, size = wren.DEVICES, FP32.itemsize
        gradients = size * wren.PARAMETERS
        sent = quizzes.ring(1, FP32, devices)
        self.formula(
            "ring_formula",
            r"2 \cdot \frac{n - 1}{n} \cdot \text{bytes of the gradients}",
            [sent == 2 * (devices - 1) / devices * size],
        )
        tokens = wren.MICRO_BATCH * wren.WREN.context_length
        speed = MFU * PEAK
        backward = 2 * fc.training_flops(wren.PARAMETERS, tokens) / 3 / speed
        for link in (NVLINK, CARD):
            seconds = sent * wren.PARAMETERS / link
            rest = max(0.0, seconds - backward)
            longer = rest / wren.STEP_SECONDS
            self.gives(link_row=(link, seconds * 1e3, rest * 1e3, longer * 100))
        needed = {link: sent / 4 * speed / link for link in (NVLINK, CARD)}
        left = sent * wren.PARAMETERS / CARD
        right = 2 * fc.training_flops(wren.PARAMETERS, 1) / 3 * needed[CARD] / speed
        self.formula(
            "hidden_formula",
            r"2 \cdot \frac{n - 1}{n} \cdot \frac{4N}{\text{bandwidth}} "
            r"&\le \frac{4NT}{\text{MFU} \cdot \text{peak FLOP/s}} \\ \Leftrightarrow \quad "
            r"T &\ge 2 \cdot \frac{n - 1}{n} \cdot "
            r"\frac{\text{MFU} \cdot \text{peak FLOP/s}}{\text{bandwidth}}",
            [math.isclose(left, right), size == 4, gradients == 4 * wren.PARAMETERS],
        )
        self.gives(card_gbit=CARD_GBIT, bucket_mib=self.bucket_mib, backward_ms=backward * 1e3)
        self.gives(backward_flops=f"{n(2 * fc.training_flops(1, 1) // 3)}NT")
        self.gives(gradient_bytes=f"{n(size)}N", micro_tokens=tokens, tokens_nvlink=needed[NVLINK])
        self.gives(tokens_card=needed[CARD])

    def sharding(self) -> None:
        """ZeRO's stages, in bytes per parameter and device, and what each device sends."""
        weight, gradient, states = BF16.itemsize, BF16.itemsize, 3 * FP32.itemsize
        assert weight + gradient + states == self.total
        devices = wren.DEVICES
        halves = 2  # a reduce-scatter of the gradients and an all-gather of the weights
        stages = [
            (weight + gradient + states, 0, halves),
            (weight + gradient, states, halves),
            (weight, gradient + states, halves),
            (0, weight + gradient + states, halves + 1),  # weights again for the backward pass
        ]
        self.held = []
        for kept, split, numbers in stages:
            parts = [n(kept)] * bool(kept) + [f"{n(split)} / n"] * bool(split)
            self.held.append(kept + Fraction(split, devices))
            held = n(float(self.held[-1]), ".10g")
            self.gives(zero_row=f"{' + '.join(parts)} | {held} | {n(numbers)}")
        self.gives(adamw_bytes=self.total, zero_weight=weight, zero_gradient=gradient)
        self.gives(zero_states=states)
        for stage in (2, 3, 2, 2, 3, 3):  # as the page names them
            self.gives(zero_stage=stage)

    def model(self) -> None:
        """One micro-batch of Wren on one device."""
        tokens = wren.MICRO_BATCH * wren.WREN.context_length
        flops = fc.training_flops(wren.PARAMETERS, tokens)
        self.gives(wren_micro_flops=flops, wren_micro_ms=1e3 * flops / (MFU * PEAK))
        kept, head = wren.PEAK.copies + wren.PEAK.layers + wren.PEAK.head, wren.HEAD_WIDTH
        kept += FP32.itemsize * tokens * wren.WREN.vocab_size  # the log-softmax
        shape = (wren.MICRO_BATCH, wren.WREN.num_heads, wren.WREN.context_length, head)
        product = wren.WREN.num_layers * fc.matmul_flops(shape, (*shape[:2], head, shape[2]))
        self.gives(wren_micro_attention=7 * product, wren_micro_kept=kept / 1e9)
        assert wren.MICRO_BATCH * quizzes.parts_of(wren.WREN)["attention_scores"] == product
        self.gives(fused_products=7, plain_products=3 * 2)
        self.gives(wren_micro_peak=wren.PEAK.total / 1e9, held_bytes=BF16.itemsize)
        self.gives(wren_adamw_ms=1e3 * wren.OPTIMIZER_STEP_BYTES / H100.memory_bandwidth)
        record = json.loads(RECORD.read_text(encoding="utf-8"))
        self.gives(**{name: n(text) for name, text in cells(record).items()})
        self.gives(held_gb=BF16.itemsize * tokens * wren.WREN.vocab_size / 1e9)

    def exercises(self) -> None:
        """The answers."""
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
        memory = H100.memory_bytes
        for held in map(float, self.held):
            self.gives(ex_stage=(memory, held, memory / held))
        assert memory / self.held[0] > wren.PARAMETERS
        (_, by_hand), (_, fused) = moved(CODE.gelu), moved(nn.functional.gelu)
        self.gives(ex_device_gb=memory / 1e9, ex_numbers=1000, ex_times=float(by_hand / fused))
        self.gives(ex_low_mfu=0.12)
