"""gpu_prefetch: batches that are right although everything runs late, and no unnecessary waits.

Every test here runs on the stand-in for a GPU, where it earns no points, and again, from
cuda/, on a real one. Kernels read a batch only when the consumer's stream reaches them, and the
consumer drops each batch at once. The stand-in runs copies, or kernels, as late as possible; on a
real GPU, they wait behind a spinning one.

Accepted on purpose: wait_stream or wait_event; record_stream, tensors created on the current
stream, or batches kept alive until they have been read; pinned memory allocated for each batch, or
reused once its copy is done; a thread; any number of batches drawn ahead from 1 (if depth is 2 or
more) to depth; drawing in __init__ or at the first batch.
"""

import pytest
import torch

from tests.hidden import ExpectOf
from tests.probes import gpu as probes

expect = ExpectOf("Prefetcher")


def batches(rng, count):
    """Pairs of tensors of two shapes and dtypes; all numbers in them differ."""
    x = torch.randint(0, 2**40, (count, 7, 11), generator=rng)
    y = torch.rand(count, 5, generator=rng)
    return list(zip(x.unbind(), y.unbind(), strict=True))


def prefetched(student, device, given, *, end=None, hint=None, ended_by=None, **options):
    """Check the batches up to `end`, in order, and return the probe's answer.

    The end itself is checked if `ended_by` is given or it came early.
    """
    got = student.run(probes.prefetched, device=device, batches=given, **options)
    expected = given[:end]
    if ended_by or len(got["seen"]) != len(expected):
        ends = "the Prefetcher ends as `batches` ends, with the same exception"
        expect.value(got["error"], ended_by or "StopIteration", hint=ends)
    expect.value(len(got["seen"]), len(expected), hint="every batch, exactly once")
    for (x, y), (want_x, want_y) in zip(got["seen"], expected, strict=True):
        expect.tensor(x, want_x, name="x", hint=hint)
        expect.tensor(y, want_y, name="y", hint=hint)
    return got


# Stays: this test checks order, shapes and dtypes without any race.
@pytest.mark.harm("wrong number")
def test_order_and_contents(student, rng, device):
    """Batches come in order, on the device, with their shapes and dtypes, for any depth.

    The last batch may be smaller. iter() returns the Prefetcher itself and changes nothing, however
    often it is called.
    """
    for depth, iters in [(1, 1), (2, 0), (3, 2), (8, 1)]:
        expected = batches(rng, 5)
        expected[-1] = (expected[-1][0][:3], expected[-1][1][:2])
        options = {"depth": depth, "iters": iters}
        got = prefetched(student, device, expected, **options, hint="first in, first out")
        expect.that(got["itself"], "iter() does not return the Prefetcher itself")
        expect.value(got["devices"], ["cuda"] * 5)


# Stays: this test provokes the first of the three races; on a real GPU every other test is too
# quick to show it.
@pytest.mark.harm("trains worse")
def test_kernels_wait_for_the_copy(student, rng, device):
    """Kernels launched after a batch was returned read that batch, however late its copy runs."""
    hint = (
        "does the current stream wait for the copy stream, and is a pinned buffer "
        "overwritten while it is still being read?"
    )
    # With depth 1 a batch is returned right after its copy was started.
    for depth in (1, 2):
        prefetched(student, device, batches(rng, 3), slow="copies", depth=depth, hint=hint)


# Stays: this test provokes the second of the three races, on the default stream that most programs
# use.
@pytest.mark.harm("trains worse")
def test_memory_is_not_reused_too_early(student, rng, device):
    """A dropped batch's memory is not reused while late kernels still read it."""
    hint = "record_stream: who uses this memory apart from the copy stream?"
    prefetched(student, device, batches(rng, 6), slow="kernels", hint=hint)


@pytest.mark.harm("rare")
def test_current_stream_is_asked_for_each_time(student, rng, device):
    """The stream that waits for a copy is the current one when the batch is returned.

    It need not be the default stream, and may be another one for the next batch.
    """
    moves = {"moves": True, "depth": 3}
    cases = [("copies", {"made_before": True}), ("copies", {}), ("both", moves)]
    cases += [("kernels", case) for case in ({}, {"made_before": True}, {"moves": True}, moves)]
    for slow, case in cases:
        # Memory is used again only after more batches than `depth`; but each wait for a later copy
        # makes up for one that was forgotten.
        given = batches(rng, 7 if slow == "kernels" else 3)
        options = {"on_a_stream": True, "depth": 1} | case
        hint = "call torch.cuda.current_stream() for each batch"
        prefetched(student, device, given, slow=slow, hint=hint, **options)


# Stays: this test provokes the third of the three races; a real GPU is too quick to show it every
# time.
@pytest.mark.harm("trains worse")
def test_iterator_may_reuse_its_tensors(student, rng, device):
    """The iterator may overwrite a batch, pinned or not, when the next one is drawn."""
    cases = [("reused", 2, "copies"), ("pinned", 2, "copies"), ("reused", 4, "copies")]
    cases += [("half pinned", 3, "copies"), ("reused", 2, "both"), ("new", 3, "both")]
    for buffers, depth, slow in cases:
        options = {"buffers": buffers, "slow": slow, "depth": depth}
        same = "pin_memory() of a tensor that is already pinned returns the same tensor"
        prefetched(student, device, batches(rng, 7), **options, hint=f"{same}, not a copy")


@pytest.mark.harm("crash")
def test_copies_are_pinned_and_beside_the_kernels(student, rng, device):
    """Each copy is from pinned memory, non_blocking, and on a stream other than the consumer's."""
    copies = []
    for buffers in ("new", "pinned"):
        got = prefetched(student, device, batches(rng, 4), buffers=buffers)
        expect.that(bool(got["copies"]), "no copy to the device was seen")
        copies += got["copies"]
    for copy in dict.fromkeys(copies):
        reason = "a copy from memory that is not pinned"
        expect.that(copy.startswith("pinned"), reason, hint="x.pin_memory()")
        expect.that("waited for" not in copy, "a copy blocks Python", hint="pass non_blocking=True")
        hint = "use with torch.cuda.stream(…) around the copy"
        reason = "a copy runs on the stream of the kernels, so it waits for them"
        expect.that("of its own" in copy, reason, hint=hint)


@pytest.mark.harm("crash")
def test_python_does_not_wait(student, rng, device):
    """Returning a batch waits neither for kernels that were launched before nor for its copy."""
    expected = batches(rng, 5)
    got = prefetched(student, device, expected, slow="kernels")
    hint = "let streams wait for each other; synchronize() and non_blocking=False make Python wait"
    expect.that(not got["waited"], "Python waited until the GPU had finished its work", hint=hint)
    got = prefetched(student, device, expected, slow="both", depth=1)
    expect.that(not got["at_once"], "Python waited for a batch's copy", hint=hint)


@pytest.mark.harm("crash")
def test_depth_is_how_far_it_draws_ahead(student, rng, device):
    """At most `depth` batches (default 2) are drawn ahead; for depth >= 2, at least one is."""
    depths = [{"depth": depth} for depth in (1, 2, 3, 4)]
    for options in [*depths, {}, {"to": "cpu"}, {"to": "cpu", "depth": 1}]:
        expected, depth = batches(rng, 8), options.get("depth", 2)
        got = prefetched(student, device, expected, **options)
        # While a batch is being returned, its place may already be taken by the next one.
        expect.parts(got["drawn"], len(expected), name="batches")
        ahead = max(drawn - number for number, drawn in enumerate(got["drawn"], 1))
        reason = "more batches are drawn ahead than `depth`"
        expect.that(ahead <= depth, reason, hint="depth limits the memory")
        if depth > 1:
            early = all(drawn > number for number, drawn in enumerate(got["drawn"][:-1], 1))
            reason = "a batch is returned before the next one is drawn"
            expect.that(early, reason, hint="fill the queue first")


@pytest.mark.harm("crash")
def test_ends_as_its_iterator_ends(student, rng, device):
    """When the iterator ends or raises, earlier batches are returned first, then the same happens.

    This also holds for no batches, or fewer than depth. Every later next() ends in the same way.
    """
    for count, depth in [(0, 2), (1, 4), (3, 3)]:
        expected = batches(rng, max(1, count))[:count]
        got = prefetched(student, device, expected, depth=depth, ended_by="StopIteration")
        reason = "another next() after the end does not raise StopIteration again"
        expect.that(got["ended_again"], reason, hint="raise StopIteration again")
    for fail_at in (0, 1, 3):
        ends = {"end": fail_at, "ended_by": "ZeroDivisionError"}
        hint = "first return the batches drawn before the exception"
        prefetched(student, device, batches(rng, 5), depth=3, fail_at=fail_at, hint=hint, **ends)


@pytest.mark.harm("crash")
def test_other_devices(student, rng, device):
    """On a CPU, batches come in order too, even if the iterator reuses its tensors."""
    expected = batches(rng, 5)
    prefetched(student, device, expected)
    for buffers in ("new", "reused"):
        hint = "x.to(device) of a tensor that is already there returns the same tensor, not a copy"
        prefetched(student, device, expected, to="cpu", buffers=buffers, hint=hint)
