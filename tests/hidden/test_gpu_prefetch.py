"""gpu_prefetch: batches that are right although everything runs late, and nothing that waits without need.

Every test here runs on the stand-in for a GPU, where it is worth no points, and again, from cuda/, on a real one. Kernels read
a batch only when the consumer's stream comes to it, and the consumer drops each batch at once. The stand-in does copies, or
kernels, as late as it may; on a real GPU batches are large, or kernels wait behind one that spins.

Accepted on purpose: wait_stream or wait_event; record_stream, tensors made on the current stream, or batches kept alive
until they were read; pinned memory made for each batch, or reused once its copy is done; a thread; any number of batches
drawn ahead from 1 (where depth is 2 or more) to depth; drawing in __init__ or at the first batch.
"""

import pytest
import torch

from tests import expect
from tests.probes import gpu as probes

OF = "Prefetcher"
SHAPES = {"stand-in": ((7, 11), (5,)), "cuda": ((2048, 1024), (1024,))}


def batches(rng, count, device="stand-in"):
    """Pairs of tensors of two shapes and dtypes, all of whose numbers differ."""
    x_shape, y_shape = SHAPES[device]
    x = torch.randint(0, 2**40, (count, *x_shape), generator=rng)
    y = torch.rand(count, *y_shape, generator=rng)
    return list(zip(x.unbind(), y.unbind(), strict=True))


def check(got, expected, *, hint=None, ended_by=None):
    """The batches, in their order and whole; and the end, where that is asked for or came too early."""
    if ended_by or len(got["seen"]) != len(expected):
        expect.value(
            got["error"],
            ended_by or "StopIteration",
            of=OF,
            hint="what ends `batches` ends the Prefetcher",
        )
    expect.value(len(got["seen"]), len(expected), of=OF, hint="every batch, once")
    for (x, y), (want_x, want_y) in zip(got["seen"], expected, strict=True):
        expect.tensor(x, want_x, of=OF, name="x", hint=hint)
        expect.tensor(y, want_y, of=OF, name="y", hint=hint)


# Stays: it holds order, shapes and dtypes apart from every race.
@pytest.mark.core
def test_order_and_contents(student, rng, device):
    """Batches come in their order with their shapes and dtypes, whatever the depth, and are on the device."""
    for depth in (1, 2, 3, 8):
        expected = batches(rng, 5)
        got = student.run(probes.prefetched, device=device, batches=expected, depth=depth)
        check(got, expected, hint="first in, first out")
        expect.value(got["devices"], ["cuda"] * 5, of=OF)


# Stays: it is the first of the three races, for which every other test is too quick on a real GPU.
@pytest.mark.core
@pytest.mark.points(2)
def test_kernels_wait_for_the_copy(student, rng, device):
    """A kernel that is given to the current stream after a batch was handed out reads the batch, however late its copy is."""
    hint = "has the current stream to wait for the stream of the copies, and is a pinned buffer still being read?"
    for depth in (1, 2):  # with 1 a batch is handed out right after its copy was begun
        expected = batches(rng, 3, device)
        got = student.run(
            probes.prefetched, device=device, batches=expected, slow="copies", depth=depth
        )
        check(got, expected, hint=hint)


# Stays: it is the second of the three races, on the default stream that most programs use.
@pytest.mark.core
@pytest.mark.points(2)
def test_memory_is_not_reused_too_early(student, rng, device):
    """A batch that is dropped is still read by kernels that come late: no later batch is copied into its memory before."""
    expected = batches(rng, 6)
    got = student.run(probes.prefetched, device=device, batches=expected, slow="kernels")
    check(got, expected, hint="record_stream: who but the stream of the copies uses this memory?")


def test_current_stream_is_asked_for_each_time(student, rng, device):
    """The stream that waits is the one that is current when a batch is handed out, which need not be the default one."""
    for slow in ("copies", "kernels"):
        expected = batches(rng, 3, device if slow == "copies" else "stand-in")
        got = student.run(
            probes.prefetched, device=device, batches=expected, slow=slow, on_a_stream=True, depth=1
        )
        check(got, expected, hint="torch.cuda.current_stream(), at each batch")


# Stays: it is the third of the three races, which a real GPU is too quick to show every time.
@pytest.mark.core
def test_iterator_may_reuse_its_tensors(student, rng, device):
    """An iterator may write over a batch as soon as it is asked for the next one, pinned memory as well."""
    for buffers in ("reused", "pinned"):
        expected = batches(rng, 5)
        got = student.run(
            probes.prefetched, device=device, batches=expected, buffers=buffers, slow="copies"
        )
        check(
            got,
            expected,
            hint="pin_memory() of a tensor that is pinned already is that tensor, and no copy",
        )


# Stays: a consumer that keeps batches is the plain case of memory that is shared.
def test_batches_have_memory_of_their_own(student, rng, device):
    """Batches that the consumer keeps stay as they are."""
    expected = batches(rng, 6)
    got = student.run(probes.prefetched, device=device, batches=expected, hold=True)
    check(got, expected, hint="is a tensor on the device written over?")


def test_copies_are_pinned_and_beside_the_kernels(student, rng, device):
    """Each copy is made from pinned memory, with non_blocking=True, on a stream that is not the consumer's."""
    expected = batches(rng, 4)
    got = student.run(probes.prefetched, device=device, batches=expected)
    check(got, expected)
    expect.that(bool(got["copies"]), "no copy to the device was seen", of=OF)
    for copy in dict.fromkeys(got["copies"]):
        expect.that(
            copy.startswith("pinned"),
            "a copy from memory that is not pinned",
            of=OF,
            hint="x.pin_memory()",
        )
        expect.that(
            "waited for" not in copy,
            "a copy that Python waits for",
            of=OF,
            hint="non_blocking=True",
        )
        hint = "with torch.cuda.stream(…) around the copy"
        expect.that(
            "of its own" in copy,
            "a copy on the stream that kernels use: it waits for them",
            of=OF,
            hint=hint,
        )


def test_python_does_not_wait(student, rng, device):
    """Handing out a batch does not wait for kernels that were given to the GPU before."""
    expected = batches(rng, 5)
    got = student.run(probes.prefetched, device=device, batches=expected, slow="kernels")
    check(got, expected)
    hint = (
        "streams wait for each other; synchronize() has Python wait, and non_blocking=False as well"
    )
    expect.that(
        not got["waited"], "Python waited until the GPU had done its work", of=OF, hint=hint
    )


@pytest.mark.core
def test_depth_is_how_far_it_draws_ahead(student, rng, device):
    """No more than `depth` batches are drawn and not handed out; with 2 or more the next one is always drawn; 2 by default."""
    for options in [{"depth": 1}, {"depth": 2}, {"depth": 3}, {"depth": 4}, {}]:
        expected, depth = batches(rng, 8), options.get("depth", 2)
        got = student.run(probes.prefetched, device=device, batches=expected, **options)
        check(got, expected)
        # While a batch is being handed out it may have made room for the next one already.
        ahead = max(drawn - number for number, drawn in enumerate(got["drawn"], 1))
        expect.that(
            ahead <= depth,
            "more batches are drawn ahead than `depth`",
            of=OF,
            hint="depth bounds the memory",
        )
        if depth > 1:
            early = all(drawn > number for number, drawn in enumerate(got["drawn"][:-1], 1))
            expect.that(
                early,
                "a batch is handed out before the next one is drawn",
                of=OF,
                hint="fill the queue first",
            )


def test_ends_as_its_iterator_ends(student, rng, device):
    """No batches, fewer than depth, or an exception: all that was drawn before comes first, and then the end, for good."""
    for count, depth in [(0, 2), (1, 4), (3, 3)]:
        expected = batches(rng, max(1, count))[:count]
        got = student.run(probes.prefetched, device=device, batches=expected, depth=depth)
        check(got, expected, ended_by="StopIteration")
        expect.that(
            got["ended_again"],
            "after its end it does not end again",
            of=OF,
            hint="raise StopIteration again",
        )
    for fail_at in (0, 1, 3):
        expected = batches(rng, 5)
        got = student.run(
            probes.prefetched, device=device, batches=expected, depth=3, fail_at=fail_at
        )
        check(
            got,
            expected[:fail_at],
            ended_by="ZeroDivisionError",
            hint="the batches drawn before an exception come first",
        )


def test_other_devices(student, rng, device):
    """To a CPU batches are moved as well, in order, and an iterator may reuse its tensors there, too."""
    expected = batches(rng, 5)
    check(student.run(probes.prefetched, device=device, batches=expected), expected)
    for buffers in ("new", "reused"):
        got = student.run(
            probes.prefetched, device=device, batches=expected, to="cpu", buffers=buffers
        )
        check(
            got,
            expected,
            hint="x.to(device) of a tensor that is there already is that tensor, and no copy",
        )
