"""The stand-in for a GPU runs operations as late as a GPU may, and later restores everything."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

import pytest
import torch

from kit import gpu_stand_in

MIB = 2**20


def replaced():
    """Some of the functions that a stand-in replaces."""
    names = ("is_available", "Stream", "Event", "synchronize", "memory_allocated")
    others = [torch.Tensor.record_stream, threading.Thread._bootstrap_inner]
    return [*(getattr(torch.cuda, name) for name in names), time.perf_counter, *others]


def test_everything_is_as_it_was_afterwards():
    before = replaced()
    with suppress(KeyError), gpu_stand_in.gpu():
        assert torch.cuda.is_available()
        assert not set(map(id, replaced())) & set(map(id, before)), "nothing was replaced"
        raise KeyError
    assert before == replaced()


def test_memory_of_another_run_is_told():
    """A student may keep a buffer in a global; an address says nothing to them."""
    with gpu_stand_in.gpu():
        kept = torch.ones(2, device="cuda")
    with (
        gpu_stand_in.gpu() as gpu,
        pytest.raises(RuntimeError, match="is a tensor kept in a global"),
    ):
        gpu.read(kept)


@pytest.mark.proof
def test_a_compiler_can_trace_what_needs_no_gpu():
    """A module may compile or export something when it is imported."""
    with gpu_stand_in.gpu():
        assert isinstance(torch.cuda.StreamContext, type), "torch's compiler asks isinstance"
        assert torch.cuda.get_device_properties().gcnArchName == "", "the inductor asks for it"
        torch.compile(torch.relu, backend="aot_eager")(torch.ones(2))
        torch.export.export(torch.nn.ReLU(), (torch.ones(2),))


def test_tensors_say_where_they_are():
    """A tensor reports the right device after it is created, moved, computed or moved back."""
    with gpu_stand_in.gpu():
        x = torch.arange(6.0, device="cuda")
        y = torch.ones(6).to("cuda", torch.float64)
        there = [t.device for t in (x, y, x * 2, x.view(2, 3), torch.zeros_like(x))]
        assert there == [torch.device("cuda", 0)] * 5
        assert (x.is_cuda, x.cpu().is_cuda, x.to("cpu").device.type) == (True, False, "cpu")
        assert (x.sum().item(), y.dtype) == (15.0, torch.float64)
        assert (x * 2).tolist() == [0, 2, 4, 6, 8, 10]


def test_two_devices_do_not_mix():
    """As on a GPU, tensors of two devices cannot be combined, except with a number."""
    with gpu_stand_in.gpu():
        x = torch.ones(3, device="cuda")
        assert (x + torch.tensor(1.0)).tolist() == [2, 2, 2]
        with pytest.raises(RuntimeError, match="same device"):
            x + torch.ones(3)


@pytest.mark.parametrize("waits", [False, True])
def test_a_copy_is_late_until_somebody_waits_for_it(waits):
    """A kernel reads the old contents unless its stream waits for the copy."""
    with gpu_stand_in.gpu(slow="copies") as gpu:
        source, side = torch.full((4,), 7).pin_memory(), torch.cuda.Stream()
        with torch.cuda.stream(side):
            x = source.to("cuda", non_blocking=True)
        if waits:
            torch.cuda.current_stream().wait_stream(side)
        seen = gpu.read(x)
        assert (seen[0].tolist() == [7, 7, 7, 7]) is waits


@pytest.mark.parametrize(("pinned", "written"), [(True, 9), (False, 7)])
def test_a_copy_reads_its_source_when_it_runs(pinned, written):
    """A copy from pinned memory; one from other memory is done when the call returns."""
    with gpu_stand_in.gpu(slow="copies") as gpu:
        source, side = torch.full((4,), 7), torch.cuda.Stream()
        source = source.pin_memory() if pinned else source
        with torch.cuda.stream(side):
            x = source.to("cuda", non_blocking=True)
        source.fill_(9)
        side.synchronize()
        assert gpu.read(x)[0].tolist() == [written] * 4


@pytest.mark.parametrize("told", [False, True])
def test_memory_goes_to_the_next_tensor_of_its_stream(told):
    """Except memory for which record_stream named another stream with unfinished work."""
    with gpu_stand_in.gpu(slow="kernels") as gpu:
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            x = torch.full((4,), 7).pin_memory().to("cuda", non_blocking=True)
        torch.cuda.current_stream().wait_stream(side)
        if told:
            x.record_stream(torch.cuda.current_stream())
        seen = gpu.read(x)
        del x
        with torch.cuda.stream(side):
            y = torch.full((4,), 9).pin_memory().to("cuda", non_blocking=True)
        torch.cuda.synchronize()
        assert seen[0].tolist() == [7 if told else 9] * 4
        assert y.tolist() == [9] * 4


def test_memory_is_counted_in_blocks():
    """Views keep their storage, and freed memory stays reserved until the cache is emptied."""
    with gpu_stand_in.gpu():
        x = torch.empty(MIB + 1, dtype=torch.uint8, device="cuda")
        view = x[5:7]
        del x
        assert torch.cuda.memory_allocated() == MIB + 512
        del view
        torch.cuda.reset_peak_memory_stats()
        assert (torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()) == (0, 0)
        assert torch.cuda.memory_reserved() == MIB + 512
        torch.cuda.empty_cache()
        assert torch.cuda.memory_reserved() == 0


def test_the_clock():
    """A launch takes 5 µs, a kernel its given time and a wake-up 20 µs; waiting shows all three."""
    with gpu_stand_in.gpu(kernel_seconds=[0.003, 0.001]) as gpu:
        started = time.perf_counter()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        gpu.kernel()
        gpu.kernel()
        end.record()
        assert time.perf_counter() - started == pytest.approx(10e-6, rel=0.01)
        assert not end.query()
        with pytest.raises(RuntimeError, match="completed"):
            begin.elapsed_time(end)
        torch.cuda.synchronize()
        assert begin.elapsed_time(end) == pytest.approx(4.005)
        assert time.perf_counter() - started == pytest.approx(0.004030, rel=0.01)


def test_streams_run_beside_each_other():
    """Two kernels on two streams take as long as the longer one."""
    with gpu_stand_in.gpu(kernel_seconds=[0.003, 0.002]) as gpu:
        gpu.kernel()
        with torch.cuda.stream(torch.cuda.Stream()):
            gpu.kernel()
        torch.cuda.synchronize()
        assert time.perf_counter() == pytest.approx(0.003, rel=0.05)


def test_products_take_their_flops():
    """The time of a matrix product is its FLOPs / (FLOP/s of its dtype), for every function."""
    speeds = {torch.float32: 1e9, torch.bfloat16: 4e9}
    for dtype, expected in [(torch.float32, 2e-3), (torch.bfloat16, 0.5e-3)]:
        with gpu_stand_in.gpu(flops_per_second=speeds):
            a, b = (torch.randn(100, 100, device="cuda", dtype=dtype) for _ in range(2))
            for product in (torch.matmul, torch.mm, partial(torch.einsum, "ij,jk->ik")):
                torch.cuda.synchronize()
                started = time.perf_counter()
                product(a, b)
                torch.cuda.synchronize()
                assert time.perf_counter() - started == pytest.approx(expected, rel=0.1)


def test_threads_see_it_too():
    """The stand-in also works in other threads, because a data loader may copy in a thread."""
    with gpu_stand_in.gpu() as gpu:
        with ThreadPoolExecutor() as pool:
            copy = lambda: torch.ones(3).pin_memory().to("cuda", non_blocking=True)  # noqa: E731
            assert pool.submit(copy).result().is_cuda
        assert gpu.copies == ["pinned, on the current stream"]


def test_the_clock_is_not_advanced_by_a_thread_that_ran_before():
    """A notebook's kernel has a thread that polls; its sleep stays real."""
    ended, slept = threading.Event(), threading.Event()

    def poll():
        while not ended.is_set():
            time.sleep(0.001)
            slept.set()

    polling = threading.Thread(target=poll)
    polling.start()
    try:
        with gpu_stand_in.gpu():
            started = time.perf_counter()
            for _ in range(3):
                slept.clear()
                assert slept.wait(60)
            time.sleep(5)
            assert round(time.perf_counter() - started, 3) == 5
    finally:
        ended.set()
        polling.join()
