"""Chapter 13: a GPU's memory, time and MFU."""

import math
import statistics
import time
from fractions import Fraction
from types import SimpleNamespace

import torch
from torch import nn
from torch.optim.optimizer import _foreach_doc
from torch.utils._python_dispatch import TorchDispatchMode

from grader.solutions.reference import flop_counting as fc
from grader.solutions.reference import gpu
from grader.solutions.reference import resource_accounting as ra
from handout.site import wren
from kit import gpu_stand_in
from tests.handout.page_figures import Figures, n, session

BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
H100 = ra.H100_SXM
PEAK = H100.peak_flops[BF16]
MFU = wren.MFU
BUCKETS = " ".join(nn.parallel.DistributedDataParallel.__doc__.split())
CODE = session("13_gpu.md")[1]  # what the page's own blocks define


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
        whole = time.perf_counter() - started
    return whole / calls if kind == "all" else statistics.median(shown)


class Chapter(Figures):
    def beginning(self) -> None:
        flops = fc.matmul_flops((100, 100), (100, 100))  # of the product in a block of code
        self.gives(asking_us=1e6 * gpu_stand_in.ASKING, waking_us=1e6 * gpu_stand_in.WAKING)
        self.gives(product_flops=(2, flops // 2), product_speed=1e9)

    def memory(self) -> None:
        # kSmallBuffer and kSmallSize of torch's c10/core/AllocatorConfig.h, in MiB. should_split in
        # CUDACachingAllocator.cpp: the rest of a large block is split off if it is larger than
        # kSmallSize.
        self.gives(block=gpu_stand_in.BLOCK, segment_mib=2, small_mib=1)

    def worst_moment(self) -> None:
        with gpu_stand_in.gpu():
            x = torch.zeros(1000, 1000, device="cuda")
            short = gpu.peak_memory(lambda: x.sin().sin())
            long = gpu.peak_memory(lambda: x.sin().sin().sin().sin().sin())
            raw = x.numel() * x.element_size()
        each = long.retained
        # "two tensors … however long …, in the end one"
        assert short == long == gpu.PeakMemory(each, 2 * each, each)
        blocks = math.ceil(raw / gpu_stand_in.BLOCK)
        self.gives(chain_bytes=raw, chain_blocks=(raw, gpu_stand_in.BLOCK, blocks))
        self.gives(block=gpu_stand_in.BLOCK, chain_each=each)
        # Workspaces of cuBLAS: CublasHandlePool.cpp, 2 · 4 MiB + 8 · 16 KiB, and 32 MiB for compute
        # capability 9.0.
        before, hopper = 2 * 4096 * 1024 + 8 * 16 * 1024, 8 * 4096 * 1024
        self.gives(cublas_mib=before / 2**20, cublas_hopper_mib=hopper >> 20)

    def left_out(self) -> None:
        assert "~ sizeof(params) more peak memory" in _foreach_doc
        roots = step_temporaries(foreach=True)
        assert step_temporaries(fused=True) == 0
        assert "saved memory size will be equal to the total gradients size" in BUCKETS
        self.gives(buckets_gb=FP32.itemsize * wren.PARAMETERS / 1e9)
        self.gives(roots_gb=roots * wren.PARAMETERS / 1e9)
        self.gives(workspace_gb=8 * 4096 * 1024 / 1e9)  # an H100's, see worst_moment

    def clocks(self) -> None:
        kernel, calls = 50e-6, 10
        asking, waking = 1e6 * gpu_stand_in.ASKING, 1e6 * gpu_stand_in.WAKING
        with gpu_stand_in.gpu(kernel_seconds=[kernel] * 13) as device:
            events = gpu.time_kernel(device.kernel, repeats=calls)
        kinds = ("alone", "wait", "all")
        alone, waiting, together = (measured(kind, kernel, calls) for kind in kinds)
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
        size, seconds = 8192, 1.5e-3
        flops = fc.matmul_flops((size, size), (size, size))
        # The product is slow, so that other costs on the stand-in do not matter.
        small, speed = (60, 80, 100), 1e7
        device = SimpleNamespace(name="a GPU", peak_flops={FP32: 4 * speed})
        with gpu_stand_in.gpu(flops_per_second={FP32: speed}):
            found = gpu.measured_mfu(*small, FP32, device)
        took = fc.matmul_flops(small[:2], small[1:]) / speed
        by_hand = 2 * math.prod(small) / (took * 4 * speed)
        formula = r"\text{MFU} = \frac{2mkn}{\text{seconds} \cdot \text{peak FLOP/s}}"
        self.formula("mfu_formula", formula, abs(found / by_hand - 1) < 1e-3)
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

    def diagnosis(self) -> None:
        # NVIDIA, Matrix Multiplication Background User's Guide: on an A100, multiples of 128 bytes.
        multiple, odd = 128 // BF16.itemsize, 50_257
        self.gives(multiple=multiple, odd_size=odd)
        self.gives(padded_size=math.ceil(odd / multiple) * multiple)
        assert callable(torch.cuda.set_sync_debug_mode)
        assert callable(torch.cuda.memory._dump_snapshot)

    def exercises(self) -> None:
        (_, by_hand), (_, fused) = moved(CODE.gelu), moved(nn.functional.gelu)
        self.gives(ex_numbers=1000, ex_times=float(by_hand / fused))
        self.gives(ex_low_mfu=0.12)
