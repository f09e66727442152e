"""gpu_memory: the most memory that a call takes on a GPU, and what it leaves there.

Every test here runs on the stand-in for a GPU, where it earns no points, and again, from
cuda/, on a real one. Tensor sizes are below 1 MiB; torch's allocator counts them in whole blocks.

Accepted on purpose: any of torch's statistics that count tensors; an additional garbage collection,
synchronisation or emptied cache; peak statistics that are left as the call made them.
"""

import pytest
import torch

from tests.hidden import ExpectOf
from tests.probes import gpu as probes

expect = ExpectOf("peak_memory")


def sizes(rng, count):
    """Distinct numbers of bytes, in whole blocks."""
    return [512 * (8 * n + 1) for n in (torch.randperm(200, generator=rng)[:count] + 1).tolist()]


def unrounded(rng, size):
    """A number of bytes that takes blocks of `size` bytes in all."""
    return size - int(torch.randint(1, 512, (), generator=rng))


FIELDS = ("allocated_before", "peak_above_before", "retained")


def check(student, device, steps, *numbers, hint=None, **options):
    """Check the three numbers of a call of these steps, and return the probe's answer."""
    got = student.run(probes.peak, device=device, steps=steps, **options)
    for name, expected in zip(FIELDS, numbers, strict=True):
        field = got[name]
        expect.that(field is not None, f"there is no field {name}: is a PeakMemory returned?")
        reason = f"wrong type of {name}: expected int, got {expect.type_name(field)}"
        expect.that(type(field) is int, reason)
        expect.that(field == expected, f"wrong number of bytes in {name}", hint=hint)
    return got


# Stays: this test checks the whole rule at once; every other test covers one part of it.
@pytest.mark.harm("wrong number")
def test_peak_and_rest_of_a_call(student, rng, device):
    """Peak and retained bytes are differences from the bytes allocated before the call.

    The peak is the most in use at any one moment; retained is what is left at the end. It is
    negative if the call frees more than it makes.
    """
    for _ in range(3):
        a, b, c, d, there = sizes(rng, 5)
        wanted = [unrounded(rng, n) for n in (a, b, c, d, there)]
        steps = [("make", "a", wanted[0]), ("make", "b", wanted[1]), ("drop", "a", 0)]
        steps += [("make", "c", wanted[2]), ("drop", "b", 0), ("keep", "c", 0)]
        steps += [("make", "d", wanted[3])]
        highest = max(a + b, b + c, c + d)
        hint = "both are differences from the bytes allocated before the call"
        check(student, device, steps, there, highest, c, alive=wanted[4:], hint=hint)
    a, first, second = sorted(sizes(rng, 3))
    steps = [("free", "1", 0), ("make", "a", a), ("keep", "a", 0)]
    alive, hint = [first, second], "retained is a difference and may be negative"
    check(student, device, steps, sum(alive), 0, a - second, alive=alive, hint=hint)


# Stays: dropping fn's result too early is the likeliest mistake, and no other test's message would
# name it.
@pytest.mark.harm("wrong number")
def test_result_of_the_call_counts(student, rng, device):
    """fn's result is still alive when `retained` is read."""
    a, b, there = sizes(rng, 3)
    steps = [("make", "a", a), ("make", "b", b)]
    options = {"alive": [there], "result": "b", "hint": "keep fn's result until the bytes are read"}
    check(student, device, steps, there, a + b, b, **options)


# Stays: reporting an earlier peak is a likely mistake, and the only one that can fail this test.
@pytest.mark.harm("wrong number")
def test_earlier_peak_is_not_the_calls(student, rng, device):
    """The peak is that of the call itself, however much memory was in use before."""
    a, b, there = sizes(rng, 3)
    steps = [("make", "a", a), ("drop", "a", 0), ("make", "b", b)]
    options = {"alive": [there], "earlier": 2 * (a + b + there)}
    hint = "reset_peak_memory_stats resets the peak"
    check(student, device, steps, there, max(a, b), 0, hint=hint, **options)


@pytest.mark.harm("rare")
def test_garbage_is_gone_before(student, rng, device):
    """Garbage from before the call counts neither as allocated before it nor as freed by it."""
    a, waste, there = sizes(rng, 3)
    waste += a
    steps = [("make", "a", a), ("keep", "a", 0), ("collect", "", 0)]
    hint = "call gc.collect() before you read anything"
    check(student, device, steps, there, a, a, alive=[there], garbage=waste, hint=hint)


@pytest.mark.harm("crash")
def test_fn_is_called_once_and_nothing_is_kept(student, rng, device):
    """fn runs once, and its result is freed by the time peak_memory returns."""
    a, there = sizes(rng, 2)
    steps, options = [("make", "a", a)], {"alive": [there], "result": "a"}
    got = check(student, device, steps, there, a, a, **options)
    expect.value(len(got["calls"]), 1, hint="how often is fn called?")
    hint = "without gradients fn keeps nothing for a backward pass, and its peak is another one"
    expect.value(got["calls"], [True], name="whether fn runs with gradients", hint=hint)
    expect.that(got["alive_after"] == there, "fn's result is still alive after the call")


@pytest.mark.harm("crash")
def test_any_name_of_the_device(student, device):
    """The device may be a string or a torch.device, with or without an index."""
    for where in ("cuda", "cuda:0"):
        expect.value(student.run(probes.peak_on, device=device, where=where), [0, 0])


@pytest.mark.harm("not refused")
def test_wrong_calls(student, rng, device):
    """fn's exceptions pass through, and a device that is not a GPU raises a ValueError."""
    (a,) = sizes(rng, 1)
    check(student, device, [("make", "a", a)], 0, a, 0)
    for kind in ("KeyError", "RuntimeError", "OutOfMemoryError"):
        error = KeyError if kind == "KeyError" else RuntimeError
        with expect.raises(error, when=f"the first call of fn raises {kind}"):
            student.run(probes.peak_of_an_error, device=device, kind=kind)
    for where in ("cpu", "meta"):
        with expect.raises(ValueError, when=f'the device is "{where}"'):
            student.run(probes.peak_on, device=device, where=where)
