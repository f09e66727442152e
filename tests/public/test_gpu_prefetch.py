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
