"""gpu_memory: the memory of a call on a GPU, here on a stand-in for a GPU. Handout §13.1."""

import gc

import torch

from kit import expect, gpu_stand_in

MIB = 2**20


def made(mib):
    """A new tensor of some MiB on the GPU."""
    return torch.empty(mib * MIB, dtype=torch.uint8, device="cuda")


def check(got, before, peak, retained, hints=()):
    """Check PeakMemory's three numbers, in MiB.

    `hints` has hints for wrong numbers of MiB, by the name of the number.
    """
    wanted = {"allocated_before": before, "peak_above_before": peak, "retained": retained}
    for name, mib in wanted.items():
        value, of = getattr(got, name, None), "peak_memory"
        known = {wrong * MIB: hint for wrong, hint in dict(hints).get(name, {}).items()}
        expect.value(value, mib * MIB, of=of, inputs=f"{name}, in bytes", hints=known)


def test_the_example(student):
    """4 MiB are in use; fn creates 3 and 2 MiB, drops the first and returns the second."""

    def fn():
        first, second = made(3), made(2)
        del first
        return second

    with gpu_stand_in.gpu():
        there = made(4)
        got = student.gpu.peak_memory(fn)
        hints = {
            "peak_above_before": {
                9: "what was allocated before is not part of it",
                3: "the peak is above what was allocated before, and not above what is left",
                2: "read the peak, and not only what is allocated at the end",
            },
            "retained": {
                0: "is fn's result still alive when the bytes are read?",
                5: "this is the peak, or reserved memory: what is allocated after the call?",
                6: "what was allocated before is not part of it",
            },
        }
        check(got, 4, 5, 2, hints=hints)
        del there


def test_what_was_before_is_not_the_calls(student):
    """20 MiB were in use earlier, but are free again when the call starts."""
    with gpu_stand_in.gpu():
        made(20)
        got = student.gpu.peak_memory(lambda: made(3))
        check(got, 0, 3, 3, hints={"peak_above_before": {20: "torch.cuda.reset_peak_memory_stats"}})


def test_a_cpu_is_refused(student):
    """A CPU's memory is not counted."""
    with gpu_stand_in.gpu():
        check(student.gpu.peak_memory(lambda: made(1), "cuda:0"), 0, 1, 1)
        with expect.raises(ValueError, of="peak_memory", when='device is "cpu"'):
            student.gpu.peak_memory(lambda: None, "cpu")


def test_a_call_may_free_more_than_it_leaves(student):
    """fn drops 4 of the 6 MiB that are in use, then creates 1 MiB: 3 MiB less than before."""
    with gpu_stand_in.gpu():
        held, kept = [made(4)], made(2)

        def fn():
            held.clear()
            return made(1)

        got = student.gpu.peak_memory(fn)
        check(got, 6, 0, -3, hints={"retained": {0: "retained may be negative"}})
        del kept


def test_results_and_small_tensors_count(student):
    """A list of tensors is a result, too. A tensor of 100 bytes takes a block of 512."""
    with gpu_stand_in.gpu():
        check(student.gpu.peak_memory(lambda: [made(1), made(2)]), 0, 3, 3)
        left = torch.cuda.memory_allocated()
        hint = "does something still refer to fn's result?"
        expect.value(left, 0, of="peak_memory", name="the bytes in use after the call", hint=hint)
        got = student.gpu.peak_memory(lambda: torch.empty(25, device="cuda"))
        expect.value(got.retained, 512, of="peak_memory", name="retained, for 100 bytes")


class Cycle:
    """A tensor in an object that refers to itself, so that only Python's collector frees it."""

    def __init__(self):
        self.tensor, self.me = made(8), self


def test_garbage_of_before_the_call_is_not_measured(student):
    """8 MiB of garbage are collected before the first number is read."""
    with gpu_stand_in.gpu():
        gc.disable()
        try:
            Cycle()
            gc.collect(1)  # what has survived a collection is old garbage
            Cycle()
            got = student.gpu.peak_memory(lambda: made(3))
        finally:
            gc.enable()
        collect = "gc.collect() before anything is read or reset: 8 MiB are garbage, twice"
        before = {8: collect, 16: collect}
        check(got, 0, 3, 3, hints={"allocated_before": before, "peak_above_before": {19: collect}})


def test_fn_is_called_once_and_its_exceptions_propagate(student):
    """fn is called once, with gradients enabled, also if it raises an exception."""
    calls = []

    def fails():
        calls.append(torch.is_grad_enabled())
        raise RuntimeError("out of memory")

    with gpu_stand_in.gpu():
        student.gpu.peak_memory(lambda: calls.append(torch.is_grad_enabled()))
        expect.value(calls, [True], of="peak_memory", name="calls of fn (gradients enabled)")
        raised = ""
        try:
            student.gpu.peak_memory(fails)
        except RuntimeError as e:
            raised = str(e)
        expect.value(raised, "out of memory", of="peak_memory", name="the error of fn")
        expect.value(calls, [True, True], of="peak_memory", name="the calls of both functions")
