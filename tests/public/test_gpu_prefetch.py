"""gpu_prefetch: batches copied to a GPU ahead of time, here to a stand-in. Handout §13.3."""

import pytest
import torch

from kit import expect, stand_in


def batches(count):
    """Batch i contains i in x and -i in y."""
    return [(torch.full((5,), i), torch.full((3,), -i)) for i in range(count)]


@pytest.mark.parametrize("slow", ["copies", "kernels"])
def test_kernels_read_what_was_handed_out(student, slow):
    """However late copies or kernels run, a kernel reads the values of its own batch.

    The kernel is launched on the current stream after the batch is returned.
    """
    with stand_in.gpu(slow=slow) as gpu:
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
            expect.tensor(
                x[0], torch.full((5,), i), of="Prefetcher", name=f"x of batch {i}", hint=hints[slow]
            )
            expect.tensor(
                y[0],
                torch.full((3,), -i),
                of="Prefetcher",
                name=f"y of batch {i}",
                hint=hints[slow],
            )


def test_copies_are_asynchronous(student):
    """Copies are made from pinned memory, on their own stream."""
    with stand_in.gpu() as gpu:
        count = sum(1 for _ in student.gpu.Prefetcher(iter(batches(3)), "cuda"))
        expect.value(count, 3, of="Prefetcher")
        expect.value(
            sorted(set(gpu.copies)),
            ["pinned, on a stream of its own"],
            of="Prefetcher",
            hint="x.pin_memory()",
        )


def test_it_draws_ahead(student):
    """With depth 2, the next batch is drawn before one is returned.

    At no time are more than two batches drawn ahead.
    """
    drawn = []

    def source():
        for number, batch in enumerate(batches(6)):
            drawn.append(number)
            yield batch

    with stand_in.gpu():
        prefetcher = student.gpu.Prefetcher(source(), "cuda", depth=2)
        for number, _ in enumerate(prefetcher, 1):
            ahead = len(drawn) - number
            expect.that(ahead <= 2, f"{ahead} batches are drawn ahead, depth is 2", of="Prefetcher")
            expect.that(
                ahead >= 1 or number == 6, "the next batch is not drawn yet", of="Prefetcher"
            )
        expect.value(len(drawn), 6, of="Prefetcher")


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_batches_that_are_overwritten(student, device):
    """The iterator writes all its batches into the same two tensors, on both devices."""
    x, y = torch.empty(5), torch.empty(3)

    def source():
        for number in range(4):
            yield x.fill_(number), y.fill_(-number)

    with stand_in.gpu():
        got = []
        for a, b in student.gpu.Prefetcher(source(), device):
            torch.cuda.synchronize()
            got.append((a.cpu()[0].item(), b.cpu()[0].item()))
    want = [(float(i), float(-i)) for i in range(4)]
    hint = (
        "a batch needs a copy, also on a CPU: .to(device, copy=True)" if device == "cpu" else None
    )
    expect.value(got, want, of="Prefetcher", name=f"the batches on {device}", hint=hint)


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_the_end_and_errors_come_after_the_batches(student, device):
    """After two batches the iterator ends or raises an error. Both batches are returned first."""
    ends = {
        "": lambda: iter(batches(2)),
        "ValueError": lambda: fails_after(batches(2)),
    }
    for error, source in ends.items():
        with stand_in.gpu():
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
            name = "the error after two batches"
            expect.value(raised, error, of="Prefetcher", name=name)
            if not error:
                again = next(prefetcher, None)
                expect.value(again, None, of="Prefetcher", name="next() after the end")


def fails_after(some):
    """An iterator that raises ValueError after some batches."""
    yield from some
    raise ValueError("the file ends here")


def test_the_stream_of_each_batch_waits(student):
    """Batches are used on another stream each; that stream waits, and Python does not."""
    with stand_in.gpu(slow="copies") as gpu:
        prefetcher = student.gpu.Prefetcher(iter(batches(4)), "cuda")
        read, streams = [], [torch.cuda.Stream() for _ in range(4)]
        for stream in streams:
            with torch.cuda.stream(stream):
                x, _ = next(prefetcher)
                read.append(gpu.read(x))
        torch.cuda.synchronize()
    hint = "ask for the current stream whenever a batch is returned"
    for number, (got,) in enumerate(read):
        name = f"x of batch {number}, on a stream of its own"
        expect.tensor(got, torch.full((5,), number), of="Prefetcher", name=name, hint=hint)
