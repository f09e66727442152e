"""gpu_timing: time on a GPU, here on a stand-in for a GPU. Handout §13.2."""

from types import SimpleNamespace

import torch

from kit import expect, gpu_stand_in


def test_time_kernel_of_the_example(student):
    """A warm-up call takes 9 ms, the next calls take 2, 3 and 7 ms: the median is 3 ms."""
    with gpu_stand_in.gpu(kernel_seconds=[0.009, 0.002, 0.003, 0.007]) as gpu:
        got = student.gpu.time_kernel(gpu.kernel, warmup=1, repeats=3)
        hints = {
            3.0: "in seconds; elapsed_time gives milliseconds",
            0.004: "this is the mean; the median is asked for",
            0.002: "this is the fastest call; the median is asked for",
            0.012: "this is the time of all calls together",
            0.005: "the warm-up call is measured, too",
            0.007: "this is the last or the slowest call; the median is asked for",
        }
        early = "the GPU is not done: wait before you read the events"
        hint = early if isinstance(got, float) and got < 0.0001 else None
        expect.number(got, 0.003, of="time_kernel", tolerance=0.0001, hint=hint, hints=hints)
        expect.value(gpu.kernels, 4, of="time_kernel", hint="fn is called warmup + repeats times")
        hint = "is the GPU done when time_kernel returns?"
        expect.value(gpu.is_busy(), False, of="time_kernel", hint=hint)
    with gpu_stand_in.gpu(kernel_seconds=[0.00005] * 7) as gpu:
        got = student.gpu.time_kernel(gpu.kernel, warmup=2, repeats=5)
        is_longer = isinstance(got, float) and got > 0.00006
        hint = "a clock of the CPU also measures the launch and the wait" if is_longer else None
        expect.number(got, 0.00005, of="time_kernel", tolerance=0.00001, hint=hint)


def test_time_kernel_without_a_warm_up(student):
    """With warmup 0 and repeats 1, the only call takes 4 ms."""
    with gpu_stand_in.gpu(kernel_seconds=[0.004]) as gpu:
        got = student.gpu.time_kernel(gpu.kernel, warmup=0, repeats=1)
        hint = "0 is a number of calls, too"
        expect.number(got, 0.004, of="time_kernel", tolerance=0.0001, hint=hint)
        expect.value(gpu.kernels, 1, of="time_kernel", hint="fn is called warmup + repeats times")


def test_measured_mfu(student):
    """A GPU that reaches 4e9 FLOP/s in bfloat16, with a stated peak of 8e9, has an MFU of 0.5."""
    hw = SimpleNamespace(name="a GPU", peak_flops={torch.bfloat16: 8e9, torch.float32: 2e9})
    with gpu_stand_in.gpu(flops_per_second={torch.bfloat16: 4e9, torch.float32: 2e9}):
        got = student.gpu.measured_mfu(200, 120, 160, torch.bfloat16, hw)
        near = {0.25: "a multiply and an add are two FLOPs", 2.0: "the peak of this dtype"}
        near |= {50.0: "a share, and not a percentage"}
        near = near if isinstance(got, float) else {}
        hint = next((text for wrong, text in near.items() if abs(got / wrong - 1) < 0.05), None)
        expect.number(got, 0.5, of="measured_mfu", tolerance=0.02, hint=hint)
        when = "hw has no peak for float16"
        with expect.raises((ValueError, KeyError), of="measured_mfu", when=when):
            student.gpu.measured_mfu(20, 30, 40, torch.float16, hw)


def test_time_kernel_of_many_calls(student):
    """Four warm-up calls take 9 ms, then twelve take 12, 1, 11, 2, … ms on a stream of their own.

    Any value between the two middle ones, 6 and 7 ms, is a median.
    """
    seconds = [0.009] * 4 + [ms / 1000 for ms in (12, 1, 11, 2, 10, 3, 9, 4, 8, 5, 7, 6)]
    with gpu_stand_in.gpu(kernel_seconds=seconds) as gpu:
        with torch.cuda.stream(torch.cuda.Stream()):
            got = student.gpu.time_kernel(gpu.kernel, warmup=4, repeats=12)
        inputs = "warmup 4, repeats 12: 1 to 12 ms, in another order"
        expect.number(got, 0.0065, of="time_kernel", tolerance=0.00055, inputs=inputs)
        expect.value(gpu.kernels, 16, of="time_kernel", hint="fn is called warmup + repeats times")


def test_measured_mfu_by_the_peak_of_the_dtype(student):
    """Each dtype has its own peak. An MFU of 2 shows a wrong peak: it stays as it is.

    A product takes 0.2 or 1.5 ms, which a clock of the CPU cannot measure.
    The matrices are (200, 120) and (120, 160), of random numbers.
    """
    peaks = {torch.float32: 2e10, torch.bfloat16: 8e10, torch.float16: 1e10}
    hw = SimpleNamespace(name="a GPU", peak_flops=peaks)
    speeds = {torch.float32: 4e10, torch.float16: 0.5e10}
    with gpu_stand_in.gpu(flops_per_second=speeds) as gpu:
        for dtype, want in ((torch.float32, 2.0), (torch.float16, 0.5)):
            got, inputs = student.gpu.measured_mfu(200, 120, 160, dtype, hw), f"dtype {dtype}"
            hints = {1.0: "an MFU above 1 shows that something is wrong: return it"}
            peak = "each dtype has its own peak in hw.peak_flops"
            others = [want * peaks[dtype] / other for other in peaks.values()]
            is_peak = isinstance(got, float) and any(abs(got / x - 1) < 0.05 for x in others)
            more = {"tolerance": 0.1 * want, "inputs": inputs, "hints": hints}
            expect.number(got, want, of="measured_mfu", hint=peak if is_peak else None, **more)
        inner = {p.inner for p in gpu.products}
        are_random = all(p.varied for p in gpu.products)
    expect.value(inner, {120}, of="measured_mfu", name="the columns of the first matrix")
    expect.that(are_random, "a matrix consists of one number", of="measured_mfu")


def test_measured_mfu_leaves_the_generator_to_the_caller(student):
    """The matrices are drawn with the caller's random state: it is not seeded anew."""
    hw = SimpleNamespace(name="a GPU", peak_flops={torch.float32: 2e12})
    drawn = []
    with gpu_stand_in.gpu():
        for seed in (1, 2):
            torch.manual_seed(seed)
            student.gpu.measured_mfu(20, 30, 40, torch.float32, hw)
            drawn.append(torch.rand(1).item())
    reason = "after the seeds 1 and 2, the next random number is the same"
    expect.that(drawn[0] != drawn[1], reason, of="measured_mfu", hint="do not seed")
