"""Probes for gpu.py, on a real GPU or on the stand-in.

Each probe takes `device`, "cuda" or "stand-in". The differences between the two are in `_RealGpu`
and gpu_stand_in.StandIn, which have the same interface: `kernel`, `read`, `copies`, `is_busy`.
"""

import contextlib
import gc
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any, TypedDict
from unittest import mock

import torch
from torch import Tensor, nn

from kit import gpu_stand_in
from tests.probes import copied

# The durations of a slow kernel and of a slow copy on a real GPU: longer than Python takes for a
# batch.
SLOW_SECONDS, SLOW_COPY_SECONDS = 0.1, 0.02


class Peak(TypedDict):
    """The result of `peak`: PeakMemory's fields, calls of fn, and the bytes alive afterwards."""

    allocated_before: Any
    peak_above_before: Any
    retained: Any
    calls: list[bool]  # whether gradients were enabled
    alive_after: int


class Timed(TypedDict):
    """The result of `timed`.

    It has time_kernel's answer, the number of calls of fn, and whether the GPU was still busy.
    """

    seconds: Any
    calls: int
    busy: bool


class Prefetched(TypedDict):
    """The result of `prefetched`: what kernels read of each batch, and how the batch was copied."""

    seen: list[tuple[Any, Any]]
    devices: list[str]
    drawn: list[int]  # batches drawn by the time each one was returned
    copies: list[str]  # without repetitions
    waited: bool  # whether Python waited for the GPU's long work
    at_once: bool  # whether the copy of the first batch was done when it was returned
    error: str | None
    ended_again: bool  # whether a further `next` after the end also ends
    itself: bool  # whether `iter` always returned the Prefetcher itself


class Stepped(TypedDict):
    """The result of `stepped`. Its lists have one entry per step."""

    losses: list[Any]
    input_dtypes: list[torch.dtype]
    output_dtypes: list[torch.dtype]
    autocast_in_backward: list[bool]
    scaled: bool
    gradients: list[list[Any]]  # as the optimizer got them
    parameters: list[Tensor]
    autocast_after: bool
    modes: list[bool]  # whether the model was in training mode, in each forward pass
    training_after: bool


# --- the two kinds of device


class _RealGpu:
    """A GPU with the methods of the stand-in."""

    def __init__(
        self, *, slow: str = "copies", kernel_seconds: Sequence[float] = (), **unused: Any
    ) -> None:
        torch.cuda.init()  # type: ignore[no-untyped-call]
        self._slow = slow
        self._kernel_seconds = iter(kernel_seconds)
        self.main = torch.cuda.current_stream()
        self.kernels = 0
        self.copies: list[str] = []

    def kernel(self) -> None:
        """Launch a kernel that spins on the current stream."""
        self.kernels += 1
        _spin(next(self._kernel_seconds, 1e-6))

    def read(self, x: Tensor) -> list[Tensor]:
        """Launch a kernel that reads a tensor, behind a kernel that takes a while."""
        if self._slow in ("kernels", "both"):
            _spin(SLOW_SECONDS)
        return [x.clone()]

    def before_a_copy(self) -> None:
        """Let the copy wait in its stream, if copies are to be slow."""
        if self._slow in ("copies", "both"):
            _spin(SLOW_COPY_SECONDS)

    def is_busy(self) -> bool:
        """Whether the main stream has work left now, and also half a millisecond later."""
        deadline = time.perf_counter() + 0.0005
        while time.perf_counter() < deadline:
            if self.main.query():
                return False
        return True

    def has_copied(self) -> bool:
        """False: the time that Python takes for a first copy is not known well enough."""
        return False


@contextlib.contextmanager
def _gpu(device: str, **settings: Any) -> Iterator[Any]:
    if device == "stand-in":
        with gpu_stand_in.gpu(**settings) as gpu:
            yield gpu
    else:
        real = _RealGpu(**settings)
        with gpu_stand_in.watched(real.copies, lambda: real.main, real.before_a_copy):
            yield real


def _spin(seconds: float) -> None:
    """Launch a kernel that spins on the current stream."""
    torch.cuda._sleep(int(seconds * _cycles_a_second()))  # type: ignore[no-untyped-call]


@cache
def _cycles_a_second() -> float:
    """Measure the cycles of torch.cuda._sleep per second, once the GPU's clock is at full speed."""
    cycles, rates = 50_000_000, [0.0]
    torch.cuda._sleep(cycles)  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    for _ in range(20):
        started = time.perf_counter()
        torch.cuda._sleep(cycles)  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()
        rates.append(cycles / (time.perf_counter() - started))
        if abs(rates[-1] - rates[-2]) < 0.03 * rates[-1]:
            break
    return rates[-1]


# --- gpu_memory


def peak(
    student: Any,
    *,
    device: str,
    steps: Sequence[tuple[str, str, int]],
    result: str | None = None,
    alive: Sequence[int] = (),
    earlier: int = 0,
    garbage: int = 0,
) -> Peak:
    """The result of peak_memory for a function that creates and drops tensors of bytes.

    Args:
        steps: ("make", name, bytes); ("drop", name, 0); ("keep", name, 0) to keep a tensor beyond
            the call; ("free", name, 0) to free a tensor that was alive before; or
            ("collect", "", 0) to collect garbage.
        result: The name of the tensor that the function returns, in a list.
        alive: Bytes of tensors that are alive before the call. The first is named "0", and so on.
        earlier: Bytes of a tensor that was created and dropped before the call.
        garbage: Bytes of a tensor in an unreachable reference cycle.
    """
    with _gpu(device):
        outside = {str(i): _bytes(n) for i, n in enumerate(alive)}
        if earlier:
            _bytes(earlier)
        calls = []
        gc.disable()  # garbage stays until it is collected explicitly
        if garbage:
            cycle: list[Any] = [_bytes(garbage)]
            cycle.append(cycle)
            gc.collect()  # only a collection of all generations finds it from now on
            del cycle

        def fn() -> list[Tensor] | None:
            calls.append(torch.is_grad_enabled())
            made: dict[str, Tensor] = {}
            for what, name, count in steps:
                if what == "make":
                    made[name] = _bytes(count)
                elif what == "keep":
                    outside[name] = made[name]
                elif what == "collect":
                    gc.collect()
                else:
                    (made if what == "drop" else outside).pop(name)
            return [made[result]] if result else None

        try:
            # "cuda" is the default.
            got = student.gpu.peak_memory(fn, *([] if result else ["cuda"]))
        finally:
            gc.enable()
        alive_after = torch.cuda.memory_allocated()
    fields = {
        name: getattr(got, name, None)
        for name in ("allocated_before", "peak_above_before", "retained")
    }
    return {**fields, "calls": calls, "alive_after": alive_after}  # type: ignore[typeddict-item]


def peak_of_an_error(student: Any, *, device: str, kind: str) -> None:
    """peak_memory of a function whose first call raises an error of this kind."""
    kinds: dict[str, type[Exception]] = {
        "KeyError": KeyError,
        "RuntimeError": RuntimeError,
        "OutOfMemoryError": torch.OutOfMemoryError,
    }
    errors = [kinds[kind]("of the function's own")]

    def fn() -> None:
        if errors:
            raise errors.pop()

    with _gpu(device):
        student.gpu.peak_memory(fn, "cuda")


def peak_on(student: Any, *, device: str, where: str) -> Any:
    """peak_memory on any device, given by name or as a torch.device; return the bytes before."""
    with _gpu(device):
        return [
            student.gpu.peak_memory(lambda: None, d).allocated_before
            for d in (where, torch.device(where))
        ]


def _bytes(count: int) -> Tensor:
    return torch.empty(count, dtype=torch.uint8, device="cuda")


# --- gpu_timing


def timed(
    student: Any,
    *,
    device: str,
    seconds: Sequence[float],
    on_a_stream: bool = False,
    **options: int,
) -> Timed:
    """time_kernel of a kernel that takes these times in successive calls.

    Args:
        on_a_stream: Whether a stream other than the default one is current.
    """
    with contextlib.ExitStack() as stack:
        gpu = stack.enter_context(_gpu(device, kernel_seconds=seconds))
        if on_a_stream:
            stack.enter_context(torch.cuda.stream(_stream()))
            gpu.main = torch.cuda.current_stream()
        if device == "cuda":
            _cycles_a_second()  # before any measurement
        got = student.gpu.time_kernel(gpu.kernel, **options)
        busy = gpu.is_busy()
        if device == "cuda":
            torch.cuda.synchronize()  # the grader's clock includes all work
        return {"seconds": got, "calls": gpu.kernels, "busy": busy}


def mfu(
    student: Any,
    *,
    device: str,
    sizes: tuple[int, int, int],
    dtype: torch.dtype,
    peaks: Sequence[tuple[torch.dtype, float]],
    speeds: Sequence[tuple[torch.dtype, float]] = (),
) -> Any:
    """measured_mfu on a GPU with these stated peaks by dtype; `speeds` are the stand-in's."""
    with _gpu(device, flops_per_second=dict(speeds)):
        return student.gpu.measured_mfu(*sizes, dtype, _hardware(peaks))


def multiplied(
    student: Any, *, sizes: tuple[int, int, int], dtype: torch.dtype
) -> tuple[list[tuple[int, int, int, bool]], bool]:
    """The products that measured_mfu computes on the stand-in; see `gpu_stand_in.Product`.

    And whether it leaves the same state of torch's generator, whatever the state was before.
    """
    drawn = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        with _gpu("stand-in") as gpu:
            student.gpu.measured_mfu(*sizes, dtype, _hardware([(dtype, 1e12)]))
        drawn.append(torch.rand(4))
    return list(dict.fromkeys(gpu.products)), torch.equal(*drawn)


def _hardware(peaks: Sequence[tuple[torch.dtype, float]]) -> Any:
    return SimpleNamespace(
        name="H100", peak_flops=dict(peaks), memory_bandwidth=1e12, memory_bytes=10**10
    )


def products(student: Any, *, device: str, size: int, dtype: torch.dtype, count: int) -> Any:
    """The time of `count` products of square matrices by time_kernel, for the grader's clock."""
    with _gpu(device):
        a, b = (torch.randn(size, size, dtype=dtype, device="cuda") for _ in range(2))
        seconds = student.gpu.time_kernel(lambda: a @ b, warmup=0, repeats=count)
        torch.cuda.synchronize()
        return seconds


def gpu_name(student: Any) -> str:
    """torch's name of the GPU."""
    return torch.cuda.get_device_name()


# --- gpu_prefetch


def prefetched(
    student: Any,
    *,
    device: str,
    batches: Sequence[tuple[Tensor, Tensor]],
    slow: str = "copies",
    buffers: str = "new",
    fail_at: int | None = None,
    on_a_stream: bool = False,
    made_before: bool = False,
    moves: bool = False,
    iters: int = 1,
    to: str = "cuda",
    **options: int,
) -> Prefetched:
    """What a consumer of a Prefetcher sees if it launches a kernel per batch and drops the batch.

    Args:
        slow: The work that is done late: "copies", "kernels" or "both". On a real GPU it waits for
            a kernel that spins.
        buffers: The iterator's tensors: "new" ones for each batch, "reused" ones, or reused and
            "pinned" ones; of "half pinned" ones x is not pinned.
        fail_at: The number of the batch at which the iterator raises ZeroDivisionError instead.
        on_a_stream: Whether the consumer uses its own stream as the current one.
        made_before: Whether the Prefetcher is created before that stream is the current one.
        moves: Whether the consumer changes to another stream after its first batch. If kernels are
            slow, the first stream has done its work by then.
        iters: How often `iter` is called: before the first batch, and after it.
    """
    with _gpu(device, slow=slow) as gpu:
        # Pinning new memory may wait for the GPU, so provide pinned memory that can be reused.
        if device == "cuda":
            _page_locked = [
                torch.empty_like(x, pin_memory=True) for x in sum(batches[:1], ()) for _ in range(8)
            ]
            del _page_locked
            _cycles_a_second()
        consumer = torch.cuda.stream(_stream()) if on_a_stream else contextlib.nullcontext()
        source = _Source(batches, buffers, fail_at)
        made = student.gpu.Prefetcher(source, to, **options) if made_before else None
        with consumer:
            gpu.main = torch.cuda.current_stream()
            made = made or student.gpu.Prefetcher(source, to, **options)
            wait = slow == "kernels"
            move = (lambda: _to_another_stream(gpu, wait=wait)) if moves else lambda: None
            return _consumed(made, gpu, source, to, iters, move)


def _stream() -> Any:
    return torch.cuda.Stream()  # type: ignore[no-untyped-call]


def _to_another_stream(gpu: Any, *, wait: bool) -> None:
    if wait:
        gpu.main.synchronize()
    gpu.main = _stream()
    torch.cuda.set_stream(gpu.main)


class _Source:
    """An iterator over batches that counts its calls."""

    def __init__(
        self, batches: Sequence[tuple[Tensor, Tensor]], buffers: str, fail_at: int | None
    ) -> None:
        self._batches = batches
        self._fail_at = fail_at
        self.asked = 0
        self._buffers: tuple[Tensor, ...] | None = None
        if buffers != "new":
            x, y = batches[0]
            pinned = ((x, buffers == "pinned"), (y, "pinned" in buffers))
            self._buffers = tuple(torch.empty_like(like, pin_memory=pin) for like, pin in pinned)

    def __iter__(self) -> "_Source":
        return self

    def __next__(self) -> tuple[Tensor, ...]:
        number = self.asked
        if self._buffers is not None:  # overwrites the previous batch
            for buffer in self._buffers:
                buffer.fill_(-1)
        if number == self._fail_at:
            raise ZeroDivisionError("of the iterator's own")
        if number >= len(self._batches):
            raise StopIteration
        self.asked += 1
        if self._buffers is None:
            return tuple(x.clone() for x in self._batches[number])
        for buffer, x in zip(self._buffers, self._batches[number], strict=True):
            buffer.copy_(x)
        return self._buffers


def _consumed(
    prefetcher: Any, gpu: Any, source: _Source, to: str, iters: int, move: Callable[[], None]
) -> Prefetched:
    out: Prefetched = {
        "seen": [], "devices": [], "drawn": [], "copies": [],
        "waited": False, "at_once": False, "error": None, "ended_again": False, "itself": True,
    }  # fmt: skip
    read: list[tuple[list[Tensor], list[Tensor]]] = []
    iterator = iter(prefetcher) if iters else prefetcher
    while True:
        if len(out["drawn"]) == 1:
            move()
            iterator = iter(prefetcher) if iters > 1 else iterator
        busy = bool(read) and gpu.is_busy()
        try:
            x, y = next(iterator)
        except (StopIteration, ZeroDivisionError) as e:
            out["error"] = type(e).__name__
            break
        out["waited"] |= busy and not gpu.is_busy()
        if not out["drawn"] and to == "cuda":
            out["at_once"] = gpu.has_copied()
        out["drawn"].append(source.asked)
        where = x.device.type if x.device == y.device else f"{x.device} and {y.device}"
        out["devices"].append(where)
        if to == "cuda":
            read.append((gpu.read(x), gpu.read(y)))
        else:
            read.append(([x.clone()], [y.clone()]))
        del x, y
    out["ended_again"] = _ends(iterator)
    out["itself"] = iterator is prefetcher
    out["copies"] = sorted({*gpu.copies})
    gpu.main.synchronize()  # first, so that no copy is done unless this stream waits for it
    torch.cuda.synchronize()
    out["seen"] = [(x[0].cpu(), y[0].cpu()) for x, y in read]
    return out


def _ends(iterator: Iterator[Any]) -> bool:
    try:
        next(iterator)
    except Exception as e:
        return isinstance(e, (StopIteration, ZeroDivisionError))
    return False


# --- gpu_mixed_precision


class _Layers(nn.Module):
    """Linear maps with ReLU between them; it records the dtypes of its inputs and outputs."""

    def __init__(self, weights: Sequence[Tensor], *, used: int) -> None:
        super().__init__()
        self.used = used
        self.weights = nn.ParameterList([nn.Parameter(w.clone()) for w in weights])
        self.tied = nn.ParameterList(self.weights[:1])  # the same weight under another name
        self.input_dtypes: list[torch.dtype] = []
        self.dtypes: list[torch.dtype] = []
        self.modes: list[bool] = []
        self.on_backward: Callable[[Tensor], None] = lambda gradient: None

    def forward(self, x: Tensor) -> Tensor:
        """Return the last map's output."""
        self.input_dtypes.append(x.dtype)
        for i, weight in enumerate(self.weights[: self.used]):
            x = nn.functional.linear(x.relu() if i else x, weight)
        self.dtypes.append(x.dtype)
        self.modes.append(self.training)
        if x.requires_grad:
            x.register_hook(self.on_backward)  # type: ignore[no-untyped-call]
        return x


def stepped(
    student: Any,
    *,
    device: str,
    weights: Sequence[Tensor],
    batches: Sequence[tuple[Tensor, Tensor]],
    lr: float,
    kind: str = "SGD",
    stale: float = 0.0,
    unused: bool = False,
    groups: bool = False,
    frozen: bool = False,
    **options: Any,
) -> Stepped:
    """Steps of autocast_train_step on linear maps with a squared error.

    If `device` is "stand-in", they run on the CPU.

    Args:
        kind: "SGD" or "AdamW".
        stale: The value of every entry of .grad before the first step.
        unused: Whether the last weight is one that the loss does not depend on.
        groups: Whether each weight is a group of the optimizer.
        frozen: Whether the last weight has requires_grad=False, and the model is in eval mode.
        options: dtype and max_norm, if given.
    """
    where = "cuda" if device == "cuda" else "cpu"
    model = _Layers(weights, used=len(weights) - unused).to(where).train(not frozen)
    model.weights[-1].requires_grad_(not frozen)
    members: list[Any] = list(model.parameters())
    members = [{"params": [p]} for p in members] if groups else members
    optimizer = torch.optim.SGD(members, lr) if kind == "SGD" else torch.optim.AdamW(members, lr)
    if stale:
        for p in model.parameters():
            p.grad = torch.full_like(p, stale)
    out: Stepped = {
        "losses": [], "input_dtypes": model.input_dtypes, "output_dtypes": model.dtypes,
        "autocast_in_backward": [], "scaled": False, "gradients": [], "parameters": [],
        "autocast_after": False, "modes": model.modes, "training_after": False,
    }  # fmt: skip
    model.on_backward = lambda gradient: out["autocast_in_backward"].append(
        torch.is_autocast_enabled(where)
    )
    optimizer.register_step_post_hook(  # after the closure, if any
        lambda *_: out["gradients"].append([copied(p.grad) for p in model.parameters()])
    )

    def loss_fn(output: Tensor, y: Tensor) -> Tensor:
        return (output.float() - y).square().mean() / 2

    with _watch_scalers(out):
        for x, y in batches:
            arguments = (model, optimizer, loss_fn, x.to(where), y.to(where))
            out["losses"].append(student.gpu.autocast_train_step(*arguments, **options))
    out["autocast_after"] = torch.is_autocast_enabled(where)
    out["training_after"] = model.training
    out["parameters"] = [p.detach().clone() for p in model.parameters()]
    return out


@contextlib.contextmanager
def _watch_scalers(out: Stepped) -> Iterator[None]:
    """Record whether an enabled GradScaler scales a loss."""
    plain: Any = torch.amp.GradScaler.scale

    def scale(scaler: Any, outputs: Any) -> Any:
        out["scaled"] |= scaler.is_enabled()
        return plain(scaler, outputs)

    with mock.patch.object(torch.amp.GradScaler, "scale", scale):
        yield
