"""gpu_memory: the memory of a call on a GPU, here on a stand-in for a GPU. Handout §13.1."""

import torch

from kit import expect, stand_in

MIB = 2**20


def made(mib):
    """A new tensor of some MiB on the GPU."""
    return torch.empty(mib * MIB, dtype=torch.uint8, device="cuda")


def check(got, before, peak, retained, hint=None):
    """Check PeakMemory's three numbers, in MiB."""
    wanted = {"allocated_before": before, "peak_above_before": peak, "retained": retained}
    for name, mib in wanted.items():
        expect.value(getattr(got, name, None), mib * MIB, of="peak_memory", inputs=name, hint=hint)


def test_the_example(student):
    """4 MiB are in use; fn creates 3 and 2 MiB, drops the first and returns the second."""

    def fn():
        first, second = made(3), made(2)
        del first
        return second

    with stand_in.gpu():
        there = made(4)
        got = student.gpu.peak_memory(fn)
        check(got, 4, 5, 2, hint="is fn's result still alive when the bytes are read?")
        del there


def test_what_was_before_is_not_the_calls(student):
    """20 MiB were in use earlier, but are free again when the call starts."""
    with stand_in.gpu():
        made(20)
        check(
            student.gpu.peak_memory(lambda: made(3)),
            0,
            3,
            3,
            hint="torch.cuda.reset_peak_memory_stats",
        )


def test_a_cpu_is_refused(student):
    """A CPU's memory is not counted."""
    with stand_in.gpu():
        check(student.gpu.peak_memory(lambda: made(1), "cuda:0"), 0, 1, 1)
        with expect.raises(ValueError, of="peak_memory", when='device is "cpu"'):
            student.gpu.peak_memory(lambda: None, "cpu")
