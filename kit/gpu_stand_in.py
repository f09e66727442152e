"""A stand-in for a GPU: torch.cuda without a GPU, with its own streams, memory and clock.

    with gpu_stand_in.gpu() as gpu:
        x = torch.ones(1000, device="cuda")

Inside the `with`, tensors can be created on "cuda", moved there and used. Streams, events, pinned
memory and memory statistics work too, and `time` shows the stand-in's clock. Tensors are in the
CPU's memory, so results are right but the real speed means nothing. The stand-in does as late as
possible what a GPU may do late, so that a missing wait has a visible effect:

- A stream queues its work. With slow="copies" the main stream runs at once, and all other streams
  run only when something waits for them. With slow="kernels" it is the other way round, and with
  slow="both" every stream runs late.
- A copy from pinned memory with non_blocking=True reads its source when its stream reaches the
  copy. Any other copy is done when the call returns.
- The memory of a deleted tensor is given to the next tensor of its size on the same stream, unless
  record_stream named another stream that has work left. New memory is not zero.
- Time passes according to the known cost of the work, not its real duration. A kernel starts as
  soon as it has been launched and its stream is free. A launch costs Python 5 µs, waking up after a
  wait costs 20 µs, and reading the clock costs 10 ns.

The stand-in supports what chapter 13 needs: one device, without autograd and CUDA graphs.
"""

import contextlib
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from kit import gpu_stand_in

# Seconds by the stand-in's clock; no test takes that long by it.
HOURS = 10_000.0
BLOCK = 512  # the allocator counts in blocks of this many bytes
POISON = 0xC3  # every byte of new memory
DEVICE = torch.device("cuda", 0)
ASKING, WAKING = 5e-6, 20e-6  # seconds
BYTES_PER_SECOND = 25e9  # of a copy between the CPU's memory and the GPU's
FILLED_PER_SECOND = 1e9  # bytes of new tensors
WRITTEN_PER_SECOND = 50e6  # bytes of results of operations other than products: slow, to be seen
MEMORY_BYTES = 80 * 10**9
NAME = "NVIDIA H100 80GB HBM3"  # a name whose peaks are known, so that it can mislead
PRODUCTS = ("mm", "bmm", "addmm", "baddbmm", "mv", "dot", "matmul", "linear")
# Functions whose answers are the same for memory of the CPU.
OF_LAYOUT = ("untyped_storage", "data_ptr", "stride", "size", "dim", "numel", "element_size")


@contextlib.contextmanager
def gpu(**settings: Any) -> Iterator["StandIn"]:
    """Replace torch.cuda by a stand-in and restore everything afterwards.

    The settings are those of `StandIn`.
    """
    device = StandIn(**settings)
    with contextlib.ExitStack() as stack:
        for owner, name, value in _replacements(device):
            stack.enter_context(mock.patch.object(owner, name, value, create=True))
        stack.enter_context(in_every_thread(lambda: _Intercept(device)))
        yield device


@contextlib.contextmanager
def in_every_thread(mode: Callable[[], TorchFunctionMode]) -> Iterator[None]:
    """Enable a mode in this thread and in threads started meanwhile.

    torch itself would enable it in this thread only.
    """
    # A new thread runs this method first, even if its class overrides `run`.
    begin = "_bootstrap_inner"
    plain = getattr(threading.Thread, begin)

    def begin_there(thread: threading.Thread) -> None:
        with mode():
            plain(thread)

    with mock.patch.object(threading.Thread, begin, begin_there), mode():
        yield


def described(is_pinned: bool, non_blocking: bool, on_main_stream: bool) -> str:
    """Describe a copy to the device in words, for the list of copies."""
    memory = "pinned" if is_pinned else "not pinned"
    stream = "the current stream" if on_main_stream else "a stream of its own"
    return f"{memory}, {'' if non_blocking else 'waited for, '}on {stream}"


class Stream:
    """torch.cuda.Stream: a queue of work, done in the order in which it was added."""

    gpu: "StandIn"

    def __init__(self, device: Any = None, priority: int = 0, **options: Any) -> None:
        if isinstance(device, (str, torch.device)) and torch.device(device).type != "cuda":
            raise ValueError(f"Expected a cuda device, but got: {device}")
        self.device = DEVICE
        self.free_at = 0.0
        self.given: list[Callable[[], object]] = []
        self.done = 0
        self.gpu.streams.append(self)

    def give(
        self, seconds: float, work: Callable[[], object] = lambda: None, *, not_before: float = 0.0
    ) -> None:
        """Add work that takes this many seconds by the stand-in's clock."""
        with self.gpu.lock:
            self.free_at = max(self.free_at, self.gpu.now, not_before) + seconds
            self.given.append(work)
            if self.gpu.is_prompt(self):
                self.run_until(len(self.given))

    def run_until(self, count: int) -> None:
        """Do the first `count` pieces of work, unless they are already done."""
        with self.gpu.lock, torch._C.DisableTorchFunction():  # torch's own functions do the work
            while self.done < count:
                self.done += 1
                self.given[self.done - 1]()

    def synchronize(self) -> None:
        """Make Python wait until all work is done."""
        self.run_until(len(self.given))
        self.gpu.now = max(self.gpu.now, self.free_at) + WAKING

    def query(self) -> bool:
        """Whether all work is done. Each query takes time, so a loop of queries ends."""
        self.gpu.now += ASKING
        if self.free_at > self.gpu.now:
            return False
        self.run_until(len(self.given))
        return True

    def record_event(self, event: "Event | None" = None) -> "Event":
        """Make the stream timestamp an event when it reaches the event."""
        event = event or self.gpu.Event()
        event.record(self)
        return event

    def wait_event(self, event: "Event") -> None:
        """Make later work wait for an event."""
        event.wait(self)

    def wait_stream(self, stream: "Stream") -> None:
        """Make later work wait for all work that the other stream has so far."""
        stream.record_event().wait(self)

    def __enter__(self) -> "Stream":
        self.gpu.outer.append(self.gpu.current)
        self.gpu.current = self
        return self

    def __exit__(self, *error: object) -> None:
        self.gpu.current = self.gpu.outer.pop()


class Event:
    """torch.cuda.Event and torch.Event: a mark in a stream, with the time when it was reached."""

    gpu: "StandIn"

    def __init__(self, *first: Any, enable_timing: bool = False, **options: Any) -> None:
        self.has_time = enable_timing or first[:1] == (True,)  # torch.Event has the device there
        self.stream: Stream | None = None
        self.position, self.at = 0, 0.0

    def record(self, stream: Stream | None = None) -> None:
        """Record the event in a stream, the current one by default."""
        self.stream = stream or self.gpu.current
        self.stream.give(0.0)
        self.position, self.at = len(self.stream.given), self.stream.free_at

    def wait(self, stream: Stream | None = None) -> None:
        """Make later work of a stream wait for the event, if the event was recorded."""
        if self.stream is not None:
            source, position = self.stream, self.position
            (stream or self.gpu.current).give(
                0.0, lambda: source.run_until(position), not_before=self.at
            )

    def synchronize(self) -> None:
        """Make Python wait for the event."""
        if self.stream is not None:
            self.stream.run_until(self.position)
            self.gpu.now = max(self.gpu.now, self.at) + WAKING

    def query(self) -> bool:
        """Whether the stream has reached the event. The query takes time, as for a stream."""
        self.gpu.now += ASKING
        if self.at > self.gpu.now:
            return False
        if self.stream is not None:
            self.stream.run_until(self.position)
        return True

    def elapsed_time(self, end: "Event") -> float:
        """Milliseconds from this event to another one."""
        if not (self.has_time and end.has_time):
            raise RuntimeError("Both events must be created with argument 'enable_timing=True'.")
        if self.stream is None or end.stream is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        if max(self.at, end.at) > self.gpu.now:
            raise RuntimeError("Both events must be completed before calculating elapsed time.")
        return (end.at - self.at) * 1000


class Generator(torch.Generator):
    """torch.Generator on any device, which draws on the CPU."""

    def __new__(cls, device: Any = "cpu") -> "Generator":
        """Make one on the CPU."""
        return super().__new__(cls, "cpu")  # type: ignore[call-arg]


class Block:
    """Memory of the device, its stream, and the work of other streams that may still use it."""

    def __init__(self, size: int, stream: Stream) -> None:
        self.memory = bytearray([POISON]) * size
        self.stream = stream
        self.others: set[Stream] = set()
        self.busy: list[tuple[Stream, int]] = []

    @property
    def address(self) -> int:
        """The address of the block in the CPU's memory."""
        return torch.frombuffer(self.memory, dtype=torch.uint8).data_ptr()

    def release(self) -> None:
        """After its tensor is gone, record the work of other streams that still holds the block."""
        self.busy = [(stream, len(stream.given)) for stream in self.others]
        self.others = set()

    def fits(self, size: int, stream: Stream) -> bool:
        """Whether a new tensor may use the block."""
        return (
            len(self.memory) == size
            and self.stream is stream
            and all(s.done >= count for s, count in self.busy)
        )


class Product(NamedTuple):
    """A product of two matrices."""

    rows: int  # of the first matrix, or columns of the second: whichever is smaller
    columns: int  # the other one of the two
    inner: int  # columns of the first matrix and rows of the second
    varied: bool  # whether neither matrix consists of one row or one column, repeated


class StandIn:
    """The device: its clock, its streams, its memory, and a record of its calls.

    Args:
        slow: The work that is done as late as possible: "kernels" (the work of the main stream),
            "copies" (the work of all other streams) or "both".
        kernel_seconds: The durations of successive calls of `kernel`. Later calls take 1 µs.
        flops_per_second: The speed of matrix products by dtype.
    """

    def __init__(
        self,
        *,
        slow: str = "copies",
        kernel_seconds: Iterable[float] = (),
        flops_per_second: Mapping[torch.dtype, float] | None = None,
    ) -> None:
        self.now = 0.0  # the time of Python's clock in seconds
        self.kernels = 0  # the number of calls of `kernel` so far
        self.copies: list[str] = []  # a description of each copy to the device, from `described`
        self.products: list[Product] = []  # each product of matrices
        self._slow = slow
        self._kernel_seconds = iter(kernel_seconds)
        self._flops_per_second = dict(flops_per_second or {})
        self.Stream = type("Stream", (Stream,), {"gpu": self})
        self.Event = type("Event", (Event,), {"gpu": self})
        self.streams: list[Stream] = []
        self.lock = threading.RLock()
        self._of_thread = threading.local()  # each thread has its own current stream
        # The stream for kernels. It is the default stream unless it is set to another one.
        self.main = self.default = self.Stream()
        self._blocks: dict[int, Block] = {}  # blocks in use by address
        self._free: list[Block] = []
        self._pinned: set[int] = set()
        # Bytes by kind: "allocated", "reserved", and "requested" before rounding to blocks.
        self._bytes, self._peaks = Counter[str](), Counter[str]()

    @property
    def current(self) -> Stream:
        """The current stream of this thread."""
        stream: Stream = getattr(self._of_thread, "current", self.default)
        return stream

    @current.setter
    def current(self, stream: Stream) -> None:
        self._of_thread.current = stream

    @property
    def outer(self) -> list[Stream]:
        """The streams that were current outside the `with` blocks that this thread is in."""
        found: list[Stream] = self._of_thread.__dict__.setdefault("outer", [])
        return found

    def read_clock(self) -> float:
        """The time of Python's clock. Each call takes 10 ns, so a loop that polls it ends."""
        self.now += 1e-8
        return self.now

    def is_prompt(self, stream: Stream) -> bool:
        """Whether a stream does its work as soon as it gets the work."""
        return self._slow == ("copies" if stream is self.main else "kernels")

    def is_busy(self) -> bool:
        """Whether the main stream has work left. The query itself does no work."""
        return bool(self.main.done < len(self.main.given) or self.main.free_at > self.now)

    def has_copied(self) -> bool:
        """Whether all streams but the main one have done their work. The query does no work."""
        return all(s.done == len(s.given) for s in self.streams if s is not self.main)

    def synchronize(self, device: Any = None) -> None:
        """Make Python wait until all streams have finished."""
        for stream in self.streams:
            stream.synchronize()

    # --- work

    def kernel(
        self, work: Callable[[], object] = lambda: None, seconds: float | None = None
    ) -> None:
        """Launch a kernel on the current stream."""
        self.kernels += 1
        self.now += ASKING
        self.current.give(next(self._kernel_seconds, 1e-6) if seconds is None else seconds, work)

    def read(self, x: Tensor) -> list[Tensor]:
        """Launch a kernel that reads a tensor without keeping it alive; return a list of results.

        The list is filled when the kernel runs.
        """
        seen: list[Tensor] = []
        with torch._C.DisableTorchFunction():
            raw = self._raw(x)
        self.kernel(lambda: seen.append(raw.clone()))
        return seen

    def compute(self, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Run an operation on the device's tensors now, after all work of the current stream."""
        self.current.run_until(len(self.current.given))
        with _CountFlops() as count:
            result = func(*args, **kwargs)
        self.now += ASKING
        self.products += count.products
        seconds = sum(n / self._flops_per_second.get(dtype, 1e12) for dtype, n in count.flops)
        # An operation that is not a product writes its result: a conversion, for example.
        self.current.give(1e-6 + seconds + (0 if count.flops else count.bytes / WRITTEN_PER_SECOND))
        return tree_map(
            lambda x: self.adopted(x, per_byte=0.0) if isinstance(x, Tensor) else x, result
        )

    def copy(self, target: Tensor, source: Tensor, non_blocking: bool) -> Tensor:
        """Copy to the device, from the device, or within the device."""
        raw = self._raw(target) if self.holds(target) else target
        seconds = source.numel() * source.element_size() / BYTES_PER_SECOND
        self.now += ASKING
        is_pinned, to_device = self.is_pinned(source), self.holds(target) and not self.holds(source)
        if to_device:
            self.copies.append(described(is_pinned, non_blocking, self.current is self.main))
        self.current.give(seconds, lambda: raw.copy_(source))
        if not (non_blocking and is_pinned and to_device):
            self.current.synchronize()
        return target

    # --- memory

    def holds(self, x: Tensor) -> bool:
        """Whether a tensor is on the device."""
        return _address(x) in self._blocks

    def is_pinned(self, x: Tensor) -> bool:
        """Whether a tensor is in pinned memory."""
        return _address(x) in self._pinned

    def empty(self, shape: Iterable[int], dtype: torch.dtype) -> Tensor:
        """A new tensor on the device, created on the current stream."""
        shape = torch.Size(shape)
        count, wanted = shape.numel(), shape.numel() * dtype.itemsize
        size = -(-wanted // BLOCK) * BLOCK
        if not size:
            return torch.empty(shape, dtype=dtype)
        block = next((b for b in self._free if b.fits(size, self.current)), None)
        if block:
            self._free.remove(block)
        else:
            block = Block(size, self.current)
            self._bytes["reserved"] += size
        self._bytes.update(allocated=size, requested=wanted)
        self._peaks |= self._bytes
        view, address = memoryview(block.memory), block.address
        self._blocks[address] = block
        weakref.finalize(view, self._released, address, wanted).atexit = False
        return torch.frombuffer(view, dtype=dtype, count=count).view(shape)

    def _released(self, address: int, wanted: int) -> None:
        block = self._blocks.pop(address)
        block.release()
        self._bytes.subtract({"allocated": len(block.memory), "requested": wanted})
        self._free.append(block)

    def pinned(self, x: Tensor) -> Tensor:
        """A copy of a CPU tensor in pinned memory."""
        if not x.numel():
            return x.clone()
        memory = memoryview(bytearray(x.numel() * x.element_size()))
        out = torch.frombuffer(memory, dtype=x.dtype).view(x.shape)
        self._pinned.add(out.data_ptr())
        weakref.finalize(memory, self._pinned.discard, out.data_ptr()).atexit = False
        return out.copy_(x)

    def used_by(self, x: Tensor, stream: Stream) -> None:
        """Record that a stream uses a tensor of another stream, as record_stream does."""
        block = self._blocks.get(_address(x))
        if block and block.stream is not stream:
            block.others.add(stream)

    def forget_peak(self, device: Any = None) -> None:
        """Reset the peaks."""
        self._peaks = self._bytes.copy()

    def empty_cache(self) -> None:
        """Give back memory that no tensor uses."""
        self._bytes["reserved"] -= sum(len(block.memory) for block in self._free)
        self._free.clear()

    def statistics(self, device: Any = None) -> dict[str, int]:
        """Some of torch.cuda.memory_stats."""
        return {
            f"{name}_bytes.all.{when}": counted["allocated" if name == "active" else name]
            for name in ("active", "allocated", "reserved", "requested")
            for when, counted in (("current", self._bytes), ("peak", self._peaks))
        }

    def memory(self, kind: str, *, peak: bool = False) -> Callable[..., int]:
        """A function of torch.cuda that returns the bytes of this kind, or the most there were."""
        return lambda device=None: (self._peaks if peak else self._bytes)[kind]

    def _raw(self, x: Tensor) -> Tensor:
        """The memory of a tensor on the device, even after the tensor is gone."""
        block = self._blocks.get(x.untyped_storage().data_ptr())
        if block is None:
            raise RuntimeError("the memory is that of another run: is a tensor kept in a global?")
        memory = block.memory
        whole = torch.frombuffer(memory, dtype=x.dtype, count=len(memory) // x.element_size())
        return whole.as_strided(x.shape, x.stride(), x.storage_offset())

    def adopted(
        self, x: Tensor, *, fill: bool = True, per_byte: float = 1 / FILLED_PER_SECOND
    ) -> Tensor:
        """Turn the result of an operation into a tensor on the device, in this time per byte."""
        if self.holds(x) or not x.numel():
            return x
        out = self.empty(x.shape, x.dtype)
        raw = self._raw(out)
        if fill:
            self.current.give(x.numel() * x.element_size() * per_byte, lambda: raw.copy_(x))
        return out


class _CountFlops(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records the FLOPs and the dtype of each matrix product that runs, and bytes of results."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.flops: list[tuple[torch.dtype, int]] = []
        self.products: list[Product] = []
        self.bytes = 0  # of all results

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if isinstance(out, Tensor) and not func.is_view:
            self.bytes += out.numel() * out.element_size()
        if (name := func.overloadpacket.__name__) in PRODUCTS:
            a, b = args[1:3] if name in ("addmm", "baddbmm") else args[:2]
            self.flops.append((a.dtype, 2 * out.numel() * a.shape[-1]))
            if out.dim() > 1:
                varied = all(
                    bool((x != x[..., :1, :]).any() and (x != x[..., :1]).any()) for x in (a, b)
                )
                rows, columns = sorted(out.shape[-2:])
                self.products.append(Product(rows, columns, a.shape[-1], varied))
        return out


class _Intercept(TorchFunctionMode):
    """Intercepts every call of torch and answers those about the device."""

    def __init__(self, gpu: StandIn) -> None:
        super().__init__()
        self._gpu = gpu

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        gpu, name = self._gpu, getattr(func, "__name__", "")
        attribute = (
            getattr(getattr(func, "__self__", None), "__name__", "") if name == "__get__" else ""
        )
        if attribute in ("device", "is_cuda", "is_cpu") and gpu.holds(args[0]):
            return {"device": DEVICE, "is_cuda": True, "is_cpu": False}[attribute]
        if attribute or name in OF_LAYOUT:
            return func(*args, **kwargs)
        if handler := getattr(self, f"_{name}", None):
            return handler(func, *args, **kwargs)
        return self._other(func, args, kwargs)

    def _other(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """An operation, or a function that makes a tensor."""
        device, pin = kwargs.pop("device", None), kwargs.pop("pin_memory", False)
        given = [x for x in tree_flatten((args, kwargs))[0] if isinstance(x, Tensor)]
        held = [self._gpu.holds(x) for x in given if x.dim()]
        if device is None and any(map(self._gpu.holds, given)):
            if not all(held):
                raise RuntimeError(
                    "Expected all tensors to be on the same device, "
                    "but found at least two devices, cuda:0 and cpu!"
                )
            return self._gpu.compute(func, args, kwargs)
        if device is not None and (type(device) is int or torch.device(device).type == "cuda"):
            made = func(*args, **kwargs)
            return self._gpu.adopted(made, fill=not func.__name__.startswith("empty"))
        if device is not None:
            kwargs["device"] = device
        made = func(*args, **kwargs)
        return self._gpu.pinned(made) if pin else made

    # --- functions about the device, by name

    def _to(self, func: Any, x: Tensor, *args: Any, copy: bool = False, **kwargs: Any) -> Tensor:
        if "other" in kwargs:
            args = (kwargs.pop("other"), *args)
        if args and isinstance(args[0], Tensor):
            other = args[0]
            args = (DEVICE if self._gpu.holds(other) else other.device, other.dtype, *args[1:])
        if args and type(args[0]) is int:
            args = (DEVICE, *args[1:])
        device, dtype, non_blocking, _ = torch._C._nn._parse_to(*args, **kwargs)
        here = "cuda" if self._gpu.holds(x) else "cpu"
        wanted = device.type if device else here
        if wanted == here == "cpu":
            return func(x, *args, copy=copy, **kwargs)  # type: ignore[no-any-return]
        if wanted == here and dtype in (None, x.dtype):
            return self._gpu.compute(torch.clone, (x,), {}) if copy else x
        if dtype not in (None, x.dtype):
            x = (
                self._gpu.compute(torch.Tensor.to, (x, dtype), {})
                if here == "cuda"
                else x.to(dtype)
            )
        if wanted == here:
            return x
        new = self._gpu.empty if wanted == "cuda" else torch.empty
        return self._gpu.copy(new(x.shape, dtype=x.dtype), x, non_blocking)

    def _cuda(
        self, func: Any, x: Tensor, device: Any = None, non_blocking: bool = False, **kwargs: Any
    ) -> Tensor:
        return self._to(torch.Tensor.to, x, DEVICE, non_blocking=non_blocking)

    def _cpu(self, func: Any, x: Tensor, **kwargs: Any) -> Tensor:
        return self._to(torch.Tensor.to, x, torch.device("cpu"))

    def _copy_(
        self, func: Any, target: Tensor, source: Tensor, non_blocking: bool = False
    ) -> Tensor:
        if self._gpu.holds(target) or self._gpu.holds(source):
            return self._gpu.copy(target, source.expand(target.shape), non_blocking)
        return func(target, source, non_blocking)  # type: ignore[no-any-return]

    def _pin_memory(self, func: Any, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if self._gpu.holds(x):
            raise RuntimeError(
                "cannot pin 'torch.cuda.Tensor': only dense CPU tensors can be pinned"
            )
        return x if self._gpu.is_pinned(x) else self._gpu.pinned(x)

    def _is_pinned(self, func: Any, x: Tensor, *args: Any, **kwargs: Any) -> bool:
        return self._gpu.is_pinned(x)

    def _read(self, func: Any, x: Tensor, *args: Any, **kwargs: Any) -> Any:
        """A function that brings values to Python, so Python waits for the current stream."""
        if self._gpu.holds(x):
            self._gpu.current.synchronize()
        return func(x, *args, **kwargs)

    _item = _tolist = ___bool__ = ___float__ = ___int__ = ___repr__ = _read


def _address(x: Tensor) -> int:
    """Where a tensor's memory is; 0 if it is sparse, or one that torch's compiler traces with."""
    with contextlib.suppress(RuntimeError):
        return x.untyped_storage().data_ptr()
    return 0


class _StreamContext:
    """torch.cuda.StreamContext; torch's compiler asks whether a value is one."""

    def __new__(cls, given: Stream | None) -> Any:
        return given or contextlib.nullcontext()


def _replacements(gpu: StandIn) -> Iterator[tuple[Any, str, Any]]:
    """The replacements as (module, name, value)."""
    reserved = gpu.memory("reserved")
    properties = SimpleNamespace(
        name=NAME, total_memory=MEMORY_BYTES, gcnArchName="", major=9, minor=0
    )
    statistics: dict[str, Callable[..., Any]] = {
        "memory_allocated": gpu.memory("allocated"),
        "max_memory_allocated": gpu.memory("allocated", peak=True),
        "memory_reserved": reserved,
        "max_memory_reserved": gpu.memory("reserved", peak=True),
        "reset_peak_memory_stats": gpu.forget_peak,
        "empty_cache": gpu.empty_cache,
        "memory_stats": gpu.statistics,
    }
    mem_get_info = {"mem_get_info": lambda device=None: (MEMORY_BYTES - reserved(), MEMORY_BYTES)}
    streams: dict[str, Callable[..., Any]] = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "synchronize": gpu.synchronize,
        "current_stream": lambda device=None: gpu.current,
    }
    of_cuda = {
        "Stream": gpu.Stream,
        "Event": gpu.Event,
        "stream": _StreamContext,
        "StreamContext": _StreamContext,
        # A function for each, because torch's compiler has a rule for each of these names.
        "manual_seed": lambda seed: None,
        "manual_seed_all": lambda seed: None,
        "set_device": lambda device: None,
        "init": lambda: None,
        # Random numbers come from the CPU's generator.
        "get_rng_state": lambda device="cuda": torch.get_rng_state(),
        "set_rng_state": lambda state, device="cuda": torch.set_rng_state(state),
        "get_rng_state_all": lambda: [torch.get_rng_state()],
        "set_rng_state_all": lambda states: torch.set_rng_state(*states),
        "is_bf16_supported": lambda including_emulation=True: True,
        "get_device_properties": lambda device=None: properties,
        "default_stream": lambda device=None: gpu.default,
        "set_stream": lambda stream: setattr(gpu, "current", stream),
        "current_device": lambda: 0,
        "device": contextlib.nullcontext,
        "is_initialized": lambda: True,
        "get_device_name": lambda device=None: NAME,
        "reset_max_memory_allocated": gpu.forget_peak,
    }
    of_accelerator = {name: partial(value) for name, value in {**statistics, **streams}.items()}
    others = set(threading.enumerate()) - {threading.current_thread()}
    clock = dict.fromkeys(("perf_counter", "monotonic", "time", "process_time"), gpu.read_clock)
    clock |= {f"{name}_ns": lambda: round(gpu.read_clock() * 1e9) for name in clock}
    replaced: list[tuple[Any, dict[str, Any]]] = [
        (torch.cuda, {**statistics, **mem_get_info, **streams, **of_cuda}),
        (torch.cuda.memory, {**statistics, **mem_get_info}),
        (getattr(torch, "accelerator", None), of_accelerator),
        (torch, {"Event": gpu.Event, "Stream": gpu.Stream, "Generator": Generator}),
        # torch accepts only its own streams here.
        (torch.Tensor, {"record_stream": lambda x, stream: gpu.used_by(x, stream)}),
        (time, {**clock, "sleep": partial(_sleep, gpu, time.sleep, others)}),
    ]
    for owner, values in replaced:
        if owner is not None:
            yield from ((owner, name, value) for name, value in values.items())


def _sleep(
    gpu: StandIn, really: Callable[[float], None], others: set[threading.Thread], seconds: float
) -> None:
    """Advance the stand-in's clock. Once it has passed HOURS, really sleep as well.

    Threads that ran before, such as one of a notebook that polls, only really sleep.
    """
    other = threading.current_thread() in others
    if other or gpu.now > HOURS:
        really(seconds)
    if not other:
        gpu.now += seconds


# Functions that may copy to a GPU, and the position of the argument that is copied.
MOVES = {"to": 0, "cuda": 0, "copy_": 1}


def watched(
    copies: list[str],
    main: Callable[[], Any] = lambda: None,
    before: Callable[[], None] = lambda: None,
) -> Any:
    """A context in which each copy from the CPU to a GPU adds a line to `copies`.

    Args:
        main: Returns the stream that kernels use.
        before: Called before each copy, with the copy's stream as the current one.
    """
    return gpu_stand_in.in_every_thread(lambda: _CopyWatch(copies, main, before))


class _CopyWatch(TorchFunctionMode):
    def __init__(
        self, copies: list[str], main: Callable[[], Any], before: Callable[[], None]
    ) -> None:
        super().__init__()
        self._copies, self._main, self._before = copies, main, before

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        position = MOVES.get(getattr(func, "__name__", ""), len(args))
        source, *_ = args[position:] or (None,)
        if not isinstance(source, Tensor) or source.is_cuda:
            return func(*args, **(kwargs or {}))
        targets = (*args[:position], *args[position + 1 :], *(kwargs or {}).values())
        if func.__name__ == "cuda" or any(map(_is_on_a_gpu, targets)):
            self._before()
        out = func(*args, **(kwargs or {}))
        if isinstance(out, Tensor) and out.is_cuda:
            non_blocking = (kwargs or {}).get("non_blocking", False) or any(a is True for a in args)
            on_main = torch.cuda.current_stream() == self._main()
            self._copies.append(gpu_stand_in.described(source.is_pinned(), non_blocking, on_main))
        return out


def _is_on_a_gpu(target: object) -> bool:
    """Whether an argument of a move is a GPU, or a tensor on one."""
    if isinstance(target, Tensor):
        return target.is_cuda
    return str(target).startswith("cuda") or type(target) is int
