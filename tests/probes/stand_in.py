"""A stand-in for a GPU: torch.cuda on a machine without one, with streams, memory and a clock of its own.

    with stand_in.gpu() as gpu:
        x = torch.ones(1000, device="cuda")

While the block runs, tensors can be made on "cuda", moved there and worked on; streams, events, pinned memory and memory
statistics are there as well, and `time` shows the stand-in's clock. Tensors lie in a CPU's memory, so results are right and
speed says nothing. What a GPU may do late, the stand-in does as late as it can, so that a wait that is missing shows:

- A stream holds what it was given. With slow="copies" the main stream runs at once and all others only when somebody waits for
  them; with slow="kernels" it is the other way round.
- A copy from pinned memory with non_blocking=True reads its source when its stream comes to it. Any other copy is done when
  the call returns.
- The memory of a tensor that is gone is given to the next one of its size on the same stream, unless record_stream told of
  another stream that has work left. New memory holds no zeros.
- Time passes by what is known of the work, not by how long it takes. A kernel starts when its stream is free and it was asked
  for; asking takes Python 5 µs, waking up after a wait 20 µs, and a look at the clock 10 ns.

It knows what chapter 13 needs: one device, no autograd, no graphs.
"""

import contextlib
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

BLOCK = 512  # bytes that the allocator counts in
POISON = 0xC3  # every byte of new memory
DEVICE = torch.device("cuda", 0)
ASKING, WAKING = 5e-6, 20e-6  # seconds
BYTES_PER_SECOND = 25e9  # of a copy between the CPU's memory and the GPU's
FILLED_PER_SECOND = 1e9  # bytes of new tensors
MEMORY_BYTES = 80 * 10**9


@contextlib.contextmanager
def gpu(**settings: Any) -> Iterator["Gpu"]:
    """A stand-in in the place of torch.cuda; afterwards everything is as it was. The settings are those of `Gpu`."""
    device = Gpu(**settings)
    with contextlib.ExitStack() as stack:
        for owner, name, value in _replacements(device):
            stack.enter_context(mock.patch.object(owner, name, value, create=True))
        stack.enter_context(in_every_thread(lambda: _Intercept(device)))
        yield device


@contextlib.contextmanager
def in_every_thread(mode: Callable[[], TorchFunctionMode]) -> Iterator[None]:
    """A mode in this thread, and in those that are started meanwhile; torch would have it in this one alone."""
    begin = "_bootstrap_inner"  # what a new thread runs first, also of a subclass with a `run` of its own
    plain = getattr(threading.Thread, begin)

    def begin_there(thread: threading.Thread) -> None:
        with mode():
            plain(thread)

    with mock.patch.object(threading.Thread, begin, begin_there), mode():
        yield


def described(is_pinned: bool, non_blocking: bool, on_main_stream: bool) -> str:
    """A copy to the device in words, for the list of them."""
    memory = "pinned" if is_pinned else "not pinned"
    stream = "the current stream" if on_main_stream else "a stream of its own"
    return f"{memory}, {'' if non_blocking else 'waited for, '}on {stream}"


class Stream:
    """torch.cuda.Stream: work, done in the order in which it was given."""

    gpu: "Gpu"

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
        """Add work that takes so long by the clock."""
        with self.gpu.lock:
            self.free_at = max(self.free_at, self.gpu.now, not_before) + seconds
            self.given.append(work)
            if self.gpu.is_prompt(self):
                self.run_until(len(self.given))

    def run_until(self, count: int) -> None:
        """Do the first `count` pieces of work, as far as they are not done."""
        with self.gpu.lock, torch._C.DisableTorchFunction():  # it is torch's own that works here
            while self.done < count:
                self.done += 1
                self.given[self.done - 1]()

    def synchronize(self) -> None:
        """Have Python wait until all of it is done."""
        self.run_until(len(self.given))
        self.gpu.now = max(self.gpu.now, self.free_at) + WAKING

    def query(self) -> bool:
        """Whether all of it is done; asking takes time, so that asking again and again ends."""
        self.gpu.now += ASKING
        if self.free_at > self.gpu.now:
            return False
        self.run_until(len(self.given))
        return True

    def record_event(self, event: "Event | None" = None) -> "Event":
        """Have an event stamped when the stream comes to it."""
        event = event or self.gpu.Event()
        event.record(self)
        return event

    def wait_event(self, event: "Event") -> None:
        """Let what is given from now on wait for an event."""
        event.wait(self)

    def wait_stream(self, stream: "Stream") -> None:
        """Let what is given from now on wait for all that the other stream was given so far."""
        stream.record_event().wait(self)

    def __enter__(self) -> "Stream":
        self.gpu.outer.append(self.gpu.current)
        self.gpu.current = self
        return self

    def __exit__(self, *error: object) -> None:
        self.gpu.current = self.gpu.outer.pop()


class Event:
    """torch.cuda.Event and torch.Event: a mark in a stream, stamped with the time when the stream comes to it."""

    gpu: "Gpu"

    def __init__(self, *first: Any, enable_timing: bool = False, **options: Any) -> None:
        self.has_time = enable_timing or first[:1] == (True,)  # torch.Event has the device there
        self.stream: Stream | None = None
        self.position, self.at = 0, 0.0

    def record(self, stream: Stream | None = None) -> None:
        """Stand in a stream, the current one by default."""
        self.stream = stream or self.gpu.current
        self.stream.give(0.0)
        self.position, self.at = len(self.stream.given), self.stream.free_at

    def wait(self, stream: Stream | None = None) -> None:
        """Let later work of a stream wait for it; one that stands in no stream holds nobody up."""
        if self.stream is not None:
            source, position = self.stream, self.position
            (stream or self.gpu.current).give(
                0.0, lambda: source.run_until(position), not_before=self.at
            )

    def synchronize(self) -> None:
        """Have Python wait for it."""
        if self.stream is not None:
            self.stream.run_until(self.position)
            self.gpu.now = max(self.gpu.now, self.at) + WAKING

    def query(self) -> bool:
        """Whether its stream has come to it; asking takes time, as it does of a stream."""
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


class Block:
    """Memory of the device, with the stream that it was made on and the work of others that may still use it."""

    def __init__(self, size: int, stream: Stream) -> None:
        self.memory = bytearray([POISON]) * size
        self.stream = stream
        self.others: set[Stream] = set()
        self.busy: list[tuple[Stream, int]] = []

    @property
    def address(self) -> int:
        """Where it lies in the CPU's memory."""
        return torch.frombuffer(self.memory, dtype=torch.uint8).data_ptr()

    def release(self) -> None:
        """Its tensor is gone: note what other streams have to do until it is free."""
        self.busy = [(stream, len(stream.given)) for stream in self.others]
        self.others = set()

    def fits(self, size: int, stream: Stream) -> bool:
        """Whether a new tensor may have it."""
        return (
            len(self.memory) == size
            and self.stream is stream
            and all(s.done >= count for s, count in self.busy)
        )


class Gpu:
    """The device: its clock, its streams, its memory, and what was asked of it.

    Args:
        slow: What is done as late as it may be, "kernels" (the work of the main stream) or "copies" (that of all others).
        kernel_seconds: How long each call of `kernel` takes, in turn; 1 µs afterwards.
        flops_per_second: How fast matrix products are, by dtype.

    Attributes:
        main: The stream that kernels are meant for; the default one, until somebody says otherwise.
        now: What Python's clock shows, in seconds.
        kernels: Calls of `kernel` so far.
        copies: How each copy to the device went, in the words of `described`.
    """

    def __init__(
        self,
        *,
        slow: str = "copies",
        kernel_seconds: Iterable[float] = (),
        flops_per_second: Mapping[torch.dtype, float] | None = None,
    ) -> None:
        self.now = 0.0
        self.kernels = 0
        self.copies: list[str] = []
        self._kernels_are_slow = slow == "kernels"
        self._kernel_seconds = iter(kernel_seconds)
        self._flops_per_second = dict(flops_per_second or {})
        self.Stream = type("Stream", (Stream,), {"gpu": self})
        self.Event = type("Event", (Event,), {"gpu": self})
        self.streams: list[Stream] = []
        self.lock = threading.RLock()
        self._of_thread = threading.local()  # each thread has a current stream of its own
        self.main = self.default = self.Stream()
        self._blocks: dict[int, Block] = {}  # those in use, by their address
        self._free: list[Block] = []
        self._pinned: set[int] = set()
        self.allocated = self.reserved = self.peak = self.reserved_peak = 0

    @property
    def current(self) -> Stream:
        """The stream that is current in this thread."""
        stream: Stream = getattr(self._of_thread, "current", self.default)
        return stream

    @current.setter
    def current(self, stream: Stream) -> None:
        self._of_thread.current = stream

    @property
    def outer(self) -> list[Stream]:
        """The streams that were current around the blocks that this thread is in."""
        found: list[Stream] = self._of_thread.__dict__.setdefault("outer", [])
        return found

    def read_clock(self) -> float:
        """What Python's clock shows; a look at it takes 10 ns, so that waiting by it ends."""
        self.now += 1e-8
        return self.now

    def is_prompt(self, stream: Stream) -> bool:
        """Whether a stream does its work as soon as it is given."""
        return (stream is self.main) != self._kernels_are_slow

    def is_busy(self) -> bool:
        """Whether the main stream has work left; nothing is done for the asking."""
        return bool(self.main.done < len(self.main.given) or self.main.free_at > self.now)

    def synchronize(self, device: Any = None) -> None:
        """Have Python wait until all streams have done all."""
        for stream in self.streams:
            stream.synchronize()

    # --- work

    def kernel(
        self, work: Callable[[], object] = lambda: None, seconds: float | None = None
    ) -> None:
        """Give the current stream a kernel."""
        self.kernels += 1
        self.now += ASKING
        self.current.give(next(self._kernel_seconds, 1e-6) if seconds is None else seconds, work)

    def read(self, x: Tensor) -> list[Tensor]:
        """Give the current stream a kernel that reads a tensor and does not keep it alive; what it read, once it ran."""
        seen: list[Tensor] = []
        with torch._C.DisableTorchFunction():
            raw = self._raw(x)
        self.kernel(lambda: seen.append(raw.clone()))
        return seen

    def compute(self, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Run an operation on the device's tensors now, which has all before it in the current stream run as well."""
        self.current.run_until(len(self.current.given))
        with _CountFlops() as count:
            result = func(*args, **kwargs)
        self.now += ASKING
        self.current.give(
            sum((n / self._flops_per_second.get(dtype, 1e12) for dtype, n in count.flops), 1e-6)
        )
        return tree_map(lambda x: self.adopted(x) if isinstance(x, Tensor) else x, result)

    def copy(self, target: Tensor, source: Tensor, non_blocking: bool) -> Tensor:
        """Copy to the device or from it, or within it."""
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
        return x.layout is torch.strided and x.untyped_storage().data_ptr() in self._blocks

    def is_pinned(self, x: Tensor) -> bool:
        """Whether a tensor lies in pinned memory."""
        return x.layout is torch.strided and x.untyped_storage().data_ptr() in self._pinned

    def empty(self, shape: Iterable[int], dtype: torch.dtype) -> Tensor:
        """A tensor on the device, made on the current stream."""
        shape = torch.Size(shape)
        count = shape.numel()
        size = -(-count * dtype.itemsize // BLOCK) * BLOCK
        if not size:
            return torch.empty(shape, dtype=dtype)
        block = next((b for b in self._free if b.fits(size, self.current)), None)
        if block:
            self._free.remove(block)
        else:
            block = Block(size, self.current)
            self.reserved += size
        self.allocated += size
        self.peak, self.reserved_peak = (
            max(self.peak, self.allocated),
            max(self.reserved_peak, self.reserved),
        )
        view, address = memoryview(block.memory), block.address
        self._blocks[address] = block
        weakref.finalize(view, self._released, address).atexit = False
        return torch.frombuffer(view, dtype=dtype, count=count).view(shape)

    def _released(self, address: int) -> None:
        block = self._blocks.pop(address)
        block.release()
        self.allocated -= len(block.memory)
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
        """Note that a stream uses a tensor which was made on another one: record_stream."""
        if (
            self.holds(x)
            and (block := self._blocks[x.untyped_storage().data_ptr()]).stream is not stream
        ):
            block.others.add(stream)

    def forget_peak(self, device: Any = None) -> None:
        """Let the peaks start anew."""
        self.peak, self.reserved_peak = self.allocated, self.reserved

    def empty_cache(self) -> None:
        """Give memory that no tensor has back."""
        self.reserved -= sum(len(block.memory) for block in self._free)
        self._free.clear()

    def statistics(self, device: Any = None) -> dict[str, int]:
        """Some of torch.cuda.memory_stats."""
        kinds = {
            "allocated_bytes": (self.allocated, self.peak),
            "reserved_bytes": (self.reserved, self.reserved_peak),
        }
        kinds["active_bytes"] = kinds["requested_bytes"] = kinds["allocated_bytes"]
        return {
            f"{kind}.all.{name}": n
            for kind, pair in kinds.items()
            for name, n in zip(("current", "peak"), pair, strict=True)
        }

    def _raw(self, x: Tensor) -> Tensor:
        """The memory of a tensor on the device, whatever becomes of the tensor."""
        memory = self._blocks[x.untyped_storage().data_ptr()].memory
        whole = torch.frombuffer(memory, dtype=x.dtype, count=len(memory) // x.element_size())
        return whole.as_strided(x.shape, x.stride(), x.storage_offset())

    def adopted(self, x: Tensor, *, fill: bool = True) -> Tensor:
        """A tensor that an operation made, on the device."""
        if self.holds(x) or not x.numel():
            return x
        out = self.empty(x.shape, x.dtype)
        raw = self._raw(out)
        if fill:
            self.current.give(
                x.numel() * x.element_size() / FILLED_PER_SECOND, lambda: raw.copy_(x)
            )
        return out


class _CountFlops(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The FLOPs of each matrix product that is run, with its dtype."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.flops: list[tuple[torch.dtype, int]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func.overloadpacket.__name__ in (
            "mm",
            "bmm",
            "addmm",
            "baddbmm",
            "mv",
            "dot",
            "matmul",
            "linear",
        ):
            a = args[1] if func.overloadpacket.__name__ in ("addmm", "baddbmm") else args[0]
            self.flops.append((a.dtype, 2 * out.numel() * a.shape[-1]))
        return out


class _Intercept(TorchFunctionMode):
    """Sees every call of torch, and answers those that are about the device."""

    def __init__(self, gpu: Gpu) -> None:
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
        if attribute or name in (
            "untyped_storage",
            "data_ptr",
            "stride",
            "size",
            "dim",
            "numel",
            "element_size",
        ):
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
                    "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
                )
            return self._gpu.compute(func, args, kwargs)
        if device is not None and (type(device) is int or torch.device(device).type == "cuda"):
            made = func(*args, **kwargs)
            return self._gpu.adopted(made, fill=not func.__name__.startswith("empty"))
        if device is not None:
            kwargs["device"] = device
        made = func(*args, **kwargs)
        return self._gpu.pinned(made) if pin else made

    # --- what is about the device, by its name

    def _to(self, func: Any, x: Tensor, *args: Any, copy: bool = False, **kwargs: Any) -> Tensor:
        if args and isinstance(args[0], Tensor):
            args = (
                DEVICE if self._gpu.holds(args[0]) else args[0].device,
                args[0].dtype,
                *args[1:],
            )
        if "other" in kwargs:
            other = kwargs.pop("other")
            args = (DEVICE if self._gpu.holds(other) else other.device, other.dtype)
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
        if wanted == "cuda":
            return (
                x
                if here == "cuda"
                else self._gpu.copy(self._gpu.empty(x.shape, x.dtype), x, non_blocking)
            )
        return self._gpu.copy(torch.empty(x.shape, dtype=x.dtype), x, non_blocking)

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
        """What brings values to Python, and has it wait for the current stream."""
        if self._gpu.holds(x):
            self._gpu.current.synchronize()
        return func(x, *args, **kwargs)

    _item = _tolist = ___bool__ = ___float__ = ___int__ = ___repr__ = _read


def _replacements(gpu: Gpu) -> Iterator[tuple[Any, str, Any]]:
    """What stands in the place of what: (module, name, value)."""

    def stream(given: Stream | None) -> Any:
        return given or contextlib.nullcontext()

    def memory(attribute: str) -> Callable[..., int]:
        return lambda device=None: getattr(gpu, attribute)

    statistics = {
        "memory_allocated": memory("allocated"),
        "max_memory_allocated": memory("peak"),
        "memory_reserved": memory("reserved"),
        "max_memory_reserved": memory("reserved_peak"),
        "reset_peak_memory_stats": gpu.forget_peak,
        "empty_cache": gpu.empty_cache,
        "memory_stats": gpu.statistics,
    }
    mem_get_info = {"mem_get_info": lambda device=None: (MEMORY_BYTES - gpu.reserved, MEMORY_BYTES)}
    streams = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "synchronize": gpu.synchronize,
        "current_stream": lambda device=None: gpu.current,
    }
    of_cuda = {
        "Stream": gpu.Stream,
        "Event": gpu.Event,
        "stream": stream,
        "StreamContext": stream,
        "manual_seed": lambda seed: None,
        "manual_seed_all": lambda seed: None,
        "is_bf16_supported": lambda including_emulation=True: True,
        "get_device_properties": lambda device=None: SimpleNamespace(
            name="a stand-in", total_memory=MEMORY_BYTES
        ),
        "default_stream": lambda device=None: gpu.default,
        "set_stream": lambda stream: setattr(gpu, "current", stream),
        "current_device": lambda: 0,
        "set_device": lambda device: None,
        "device": lambda device: contextlib.nullcontext(),
        "is_initialized": lambda: True,
        "init": lambda: None,
        "get_device_name": lambda device=None: "a stand-in",
        "reset_max_memory_allocated": gpu.forget_peak,
    }
    clock = dict.fromkeys(("perf_counter", "monotonic", "time", "process_time"), gpu.read_clock)
    clock |= {f"{name}_ns": lambda: round(gpu.read_clock() * 1e9) for name in clock}
    replaced: list[tuple[Any, dict[str, Any]]] = [
        (torch.cuda, {**statistics, **mem_get_info, **streams, **of_cuda}),
        (torch.cuda.memory, {**statistics, **mem_get_info}),
        (getattr(torch, "accelerator", None), {**statistics, **streams}),
        (torch, {"Event": gpu.Event, "Stream": gpu.Stream}),
        (
            torch.Tensor,
            {"record_stream": lambda x, stream: gpu.used_by(x, stream)},
        ),  # torch wants a stream of its own here
        (time, {**clock, "sleep": lambda seconds: setattr(gpu, "now", gpu.now + seconds)}),
    ]
    for owner, values in replaced:
        if owner is not None:
            yield from ((owner, name, value) for name, value in values.items())
