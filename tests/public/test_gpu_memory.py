"""gpu_memory: what a call takes on a GPU, here on the stand-in for one. Handout §13.1."""

import torch

from tests import expect
from tests.probes import stand_in

MIB = 2**20


def made(mib):
    """A tensor of some MiB on the GPU."""
    return torch.empty(mib * MIB, dtype=torch.uint8, device="cuda")


def check(got, before, peak, retained, hint=None):
    """PeakMemory's three numbers."""
    wanted = {"allocated_before": before, "peak_above_before": peak, "retained": retained}
    for name, mib in wanted.items():
        expect.value(getattr(got, name, None), mib * MIB, of="peak_memory", inputs=name, hint=hint)


def test_the_example(student):
    """4 MiB are there; 3 and 2 MiB are made, the first is dropped, the second one returned."""

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
    """20 MiB were in use before and are not any more."""
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
