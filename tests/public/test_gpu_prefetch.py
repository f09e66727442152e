"""gpu_prefetch: batches copied to a GPU ahead of time, here to a stand-in. Handout §13.3."""

import pytest
import torch

from kit import expect, gpu_stand_in


def batches(count):
    """Batch i contains i in x and -i in y."""
    return [(torch.full((5,), i), torch.full((3,), -i)) for i in range(count)]


@pytest.mark.parametrize("slow", ["copies", "kernels"])
def test_kernels_read_what_was_handed_out(student, slow):
    """However late copies or kernels run, a kernel reads the values of its own batch.

    The kernel is launched on the current stream after the batch is returned.
    """
    with gpu_stand_in.gpu(slow=slow) as gpu:
        read = []
        for x, y in student.gpu.Prefetcher(iter(batches(5)), "cuda"):
            read.append((gpu.read(x), gpu.read(y)))
            del x, y  # dropped, although the kernel may not have run yet
        torch.cuda.synchronize()
        expect.value(len(read), 5, of="Prefetcher")
        hints = {
            "copies": "the current stream has to wait for the copy",
            "kernels": "what does record_stream tell the allocator?",
        }
        for i, (x, y) in enumerate(read):
            name = f"x of batch {i + 1} of 5"
            expect.tensor(x[0], torch.full((5,), i), of="Prefetcher", name=name, hint=hints[slow])
            name = f"y of batch {i + 1} of 5"
            expect.tensor(y[0], torch.full((3,), -i), of="Prefetcher", name=name, hint=hints[slow])


def test_copies_are_asynchronous(student):
    """Copies are made from pinned memory, on their own stream."""
    with gpu_stand_in.gpu() as gpu:
        count = sum(1 for _ in student.gpu.Prefetcher(iter(batches(3)), "cuda"))
        expect.value(count, 3, of="Prefetcher")
        copies, want = sorted(set(gpu.copies)), ["pinned, on a stream of its own"]
        expect.value(copies, want, of="Prefetcher", hint="x.pin_memory()")


@pytest.mark.parametrize("device", ["cuda", "cpu"])
@pytest.mark.parametrize("options", [{}, {"depth": 2}])
def test_it_draws_ahead(student, device, options):
    """With depth 2, the default, the next batch is drawn before one is returned.

    At no time are more than two batches drawn ahead.
    """
    drawn = []

    def source():
        for number, batch in enumerate(batches(6)):
            drawn.append(number)
            yield batch

    with gpu_stand_in.gpu():
        prefetcher = student.gpu.Prefetcher(source(), device, **options)
        for number, _ in enumerate(prefetcher, 1):
            ahead = len(drawn) - number
            expect.that(ahead <= 2, f"{ahead} batches are drawn ahead, depth is 2", of="Prefetcher")
            is_ahead = ahead >= 1 or number == 6
            reason = f"the next batch is not drawn yet on {device}, depth is 2"
            expect.that(is_ahead, reason, of="Prefetcher")
        expect.value(len(drawn), 6, of="Prefetcher")


def test_python_does_not_wait(student):
    """A kernel of the first batch is still running when the second batch is returned.

    The copy of a batch that is returned need not be done yet.
    """
    with gpu_stand_in.gpu(slow="kernels") as gpu:
        prefetcher = student.gpu.Prefetcher(iter(batches(3)), "cuda")
        gpu.read(next(prefetcher)[0])
        next(prefetcher)
        hint = "the stream waits for the copy, and not Python"
        expect.that(gpu.is_busy(), "Python waits for the kernels", of="Prefetcher", hint=hint)
    with gpu_stand_in.gpu(slow="both") as gpu:  # nothing runs until something waits for it
        next(student.gpu.Prefetcher(iter(batches(3)), "cuda", depth=1))
        expect.that(not gpu.has_copied(), "Python waits for the copy", of="Prefetcher", hint=hint)


@pytest.mark.parametrize("depth", [2, 4])
@pytest.mark.parametrize(("device", "pinned"), [("cuda", False), ("cuda", True), ("cpu", False)])
def test_batches_that_are_overwritten(student, device, pinned, depth):
    """The iterator writes all its batches into the same two tensors, which may be pinned."""
    with gpu_stand_in.gpu() as gpu:
        x, y = (torch.empty(n, pin_memory=pinned) for n in (5, 3))

        def source():
            for number in range(5):
                yield x.fill_(number), y.fill_(-number)

        got = []
        for a, b in student.gpu.Prefetcher(source(), device, depth):
            got.append((gpu.read(a), gpu.read(b)) if device == "cuda" else ([a], [b]))
        torch.cuda.synchronize()
        numbers = [(a[0][0].item(), b[0][0].item()) for a, b in got]
    want = [(float(i), float(-i)) for i in range(5)]
    hints = {"cpu": ".to(device, copy=True)", "cuda": "pin_memory() does not copy pinned tensors"}
    hint = f"each batch needs a copy: {hints[device]}" if pinned or device == "cpu" else None
    name = f"the batches on {device}, depth {depth}"
    expect.value(numbers, want, of="Prefetcher", name=name, hint=hint)


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_the_end_and_errors_come_after_the_batches(student, device):
    """After two batches the iterator ends or raises an error. Both batches are returned first."""
    ends = {"": lambda: iter(batches(2)), "ValueError": lambda: fails_after(batches(2))}
    for error, source in ends.items():
        with gpu_stand_in.gpu():
            prefetcher = student.gpu.Prefetcher(source(), device)
            is_itself = iter(prefetcher) is prefetcher
            expect.that(is_itself, "iter(p) is not p itself", of="Prefetcher")
            got = [next(prefetcher, None) is not None]
            iter(prefetcher)
            got.append(next(prefetcher, None) is not None)
            expect.value(got, [True, True], of="Prefetcher", name="whether two batches come")
            raised = ""
            try:
                expect.value(next(prefetcher, None), None, of="Prefetcher", name="a third batch")
            except ValueError:
                raised = "ValueError"
            expect.value(raised, error, of="Prefetcher", name="the error after two batches")
            if not error:
                again = next(prefetcher, None)
                expect.value(again, None, of="Prefetcher", name="next() after the end")


def fails_after(some):
    """An iterator that raises ValueError after some batches."""
    yield from some
    raise ValueError("the file ends here")


@pytest.mark.parametrize("slow", ["copies", "both"])
def test_the_current_stream_may_change(student, slow):
    """Each batch is read on a stream of its own, which waits for the copy of this batch."""
    with gpu_stand_in.gpu(slow=slow) as gpu:
        prefetcher = student.gpu.Prefetcher(iter(batches(6)), "cuda")
        read, streams = [], []
        for x, y in prefetcher:
            read.append(gpu.read(x))
            del x, y
            streams.append(gpu.main)
            gpu.main = torch.cuda.Stream()
            torch.cuda.set_stream(gpu.main)
        for stream in reversed(streams):  # the last first: no copy is done unless it waits for it
            stream.synchronize()
        torch.cuda.synchronize()
    hint = "ask for the current stream whenever a batch is returned"
    for number, (got,) in enumerate(read):
        name = f"x of batch {number + 1}, on a stream of its own"
        expect.tensor(got, torch.full((5,), number), of="Prefetcher", name=name, hint=hint)
