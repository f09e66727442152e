"""Frames and the codec: the only data that crosses between the grader and the sandbox.

The format of a frame, in both directions:

- 4 bytes: length of the head, big-endian; 8 bytes: length of the body, big-endian
- the head: JSON, `{"value": tree, "blobs": [[start, bytes], ...]}`
- the body: raw bytes of tensors, arrays and byte strings, one after the other

A tree is None, a bool, an int, a float or a string in JSON (including NaN and infinities), or an
object with one key that names its kind: `list`, `tuple`, `dict` (pairs), `bytes`, `dtype`,
`tensor`, `array`, `other`. A tensor is a dtype, a shape, strides and an offset into a blob, so that
views of one storage arrive as views of one storage. Its bounds are checked before it is built.

Values that a student's code returns are handled leniently: a value of a related type crosses as the
plain value that it represents (see `_plain`), and any other value crosses as `other`, with only the
name of its type. Values that a test sends are handled strictly: both cases are errors.

This module runs on both sides, so it imports only the standard library, torch and numpy. Reading a
frame never executes code: a hostile frame can at most occupy memory up to the length limits, and
ends in a `ProtocolError`.
"""

import ctypes
import itertools
import json
import re
import socket
import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

HEADER = struct.Struct("!IQ")
MAX_HEAD_BYTES = 4 * 2**20
MAX_BODY_BYTES = 512 * 2**20
MOST_BUFFERS = 64  # that one system call writes; the system accepts 1024
MAX_DEPTH = 24
MAX_NODES = 100_000
# The most keys in all dicts together. Colliding keys would take quadratic time.
MAX_KEYS = 1024
MAX_INT_BITS = 8192
ATOMS = frozenset([type(None), bool, int, float, str])
SIMPLE = ATOMS - {int}  # an int may be too large

TOO_MUCH = "a value nested too deep or with too many parts"

Tree = Any
Buffer = memoryview | bytes

DTYPES: dict[str, torch.dtype] = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in [
        torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn,
        torch.float8_e5m2, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8,
        torch.uint16, torch.uint32, torch.uint64, torch.bool, torch.complex64, torch.complex128,
    ]
}  # fmt: skip
DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}
ARRAY_DTYPE = re.compile(r"[<>|]?[biufc](1|2|4|8|16)")


class ProtocolError(Exception):
    """The other side sent something that is not a frame, or a value cannot be encoded."""


@dataclass(frozen=True)
class Other:
    """A value that is not plain data; only the name of its type crosses."""

    type_name: str


def encode(value: object, *, views: bool = False, strict: bool = False) -> list[Buffer]:
    """Encode `value` as a frame: buffers to be written one after the other.

    Args:
        value: Plain data. A related type crosses as the plain value that it represents, anything
            else as `Other`.
        views: Keep strides, offsets and shared storages of tensors by sending each storage whole.
            Without it, tensors are sent contiguous, so that a small view of a large storage stays
            small.
        strict: Refuse anything that is not already plain data.

    Raises:
        ProtocolError: The value is too large for a frame, or is refused; the message names the
            part and the reason.
    """
    encoder = _Encoder(views, strict)
    tree = encoder.tree(value, 0)
    head = _to_json({"value": tree, "blobs": encoder.places}).encode("utf-8", "surrogatepass")
    body = sum(len(blob) for blob in encoder.blobs)
    if len(head) > MAX_HEAD_BYTES or body > MAX_BODY_BYTES:
        raise ProtocolError(f"a value of {len(head) + body} bytes is too large for a frame")
    return [HEADER.pack(len(head), body), head, *encoder.blobs]


# json.dumps would make such an encoder for each value. A tree has no circles.
_to_json = json.JSONEncoder(ensure_ascii=False, check_circular=False).encode


def decode(head: bytes, body: memoryview) -> Any:
    """Decode a frame.

    Tensors and arrays are views of `body`, which must be writable and stay alive.

    Raises:
        ProtocolError: The bytes are not a valid frame, or a tensor does not fit its bytes.
    """
    try:
        outer = json.loads(head)
        return _Decoder(outer["blobs"], body).value(outer["value"], 0)
    except (ValueError, LookupError, TypeError, RecursionError, OverflowError, RuntimeError) as e:
        raise ProtocolError(f"not a frame: {type(e).__name__}") from None


def send(sock: socket.socket, value: object, *, views: bool = False) -> None:
    """Write `value` as one frame; block until it is written."""
    write(sock, encode(value, views=views))


def write(sock: socket.socket, buffers: list[Buffer]) -> None:
    """Write the buffers of a frame, and remove from the list what is written.

    One system call writes a small frame, so that its reader wakes up once.

    Raises:
        BlockingIOError: The socket is set not to block, and takes no more for now. The list then
            has the rest.
    """
    while buffers:
        _remove(buffers, sock.sendmsg(buffers[:MOST_BUFFERS]))


def _remove(buffers: list[Buffer], size: int) -> None:
    """Remove the first `size` bytes from a list of buffers, and the empty buffers after them."""
    whole = 0
    while whole < len(buffers) and size >= len(buffers[whole]):
        size -= len(buffers[whole])
        whole += 1
    del buffers[:whole]
    if size:
        buffers[0] = memoryview(buffers[0])[size:]


def receive(sock: socket.socket) -> Any:
    """Read one frame; block until it is complete.

    Raises:
        EOFError: The other side has closed.
        ProtocolError: What arrived is not a frame.
    """
    reader = FrameReader()
    while not reader.read_from(sock):
        pass
    return reader.value()


class FrameReader:
    """Collects one frame from a socket, piece by piece, and allocates only what the caps allow."""

    def __init__(self) -> None:
        self._header = bytearray(HEADER.size)
        self._head = self._body = memoryview(b"")
        self._empty: list[Buffer] = [memoryview(self._header)]  # what is still to be filled
        self._has_header = False

    def read_from(self, sock: socket.socket) -> bool:
        """Read from the socket what there is of the frame; return True when it is complete.

        Raises:
            EOFError: The other side closed before the frame was complete.
            ProtocolError: The header claims more than a frame may hold.
        """
        self._fill(sock)
        if not self._empty and not self._has_header:
            self._allocate()
            if self._empty:
                # The rest usually arrives together with the header.
                with suppress(BlockingIOError):
                    self._fill(sock, socket.MSG_DONTWAIT)
        return not self._empty

    def value(self) -> Any:
        """The value of the complete frame."""
        return decode(bytes(self._head), self._body)

    def _fill(self, sock: socket.socket, flags: int = 0) -> None:
        received = sock.recvmsg_into(self._empty, 0, flags)[0]
        if received == 0:
            raise EOFError
        _remove(self._empty, received)

    def _allocate(self) -> None:
        self._has_header = True
        head, body = HEADER.unpack(self._header)
        if head > MAX_HEAD_BYTES or body > MAX_BODY_BYTES:
            raise ProtocolError(f"a frame claims {head} + {body} bytes")
        # np.empty does not touch the memory until it is filled.
        self._head, self._body = (np.empty(size, dtype=np.uint8).data for size in (head, body))
        self._empty = [part for part in (self._head, self._body) if len(part)]


class _Encoder:
    def __init__(self, views: bool, strict: bool) -> None:
        self._views = views
        self._strict = strict
        self._path: list[object] = []  # indices and keys that lead to the current value
        self._in_key = False
        self._storages: dict[int, int] = {}
        self._nodes = 1
        self._keys = 0
        self._end = 0  # of the last blob
        # Storages are identified by address. The blobs keep them alive.
        self.blobs: list[Buffer] = []
        self.places: list[list[int]] = []

    def tree(self, value: object, depth: int) -> Tree:
        kind = type(value)
        if kind in SIMPLE:
            return value
        if not (self._strict or kind in ATOMS or kind in self._WRITERS):
            value = _plain(value)
        if type(value) is int and value.bit_length() > MAX_INT_BITS:
            return self._other(f"int of {value.bit_length()} bits")
        if type(value) in ATOMS:
            return value
        write = self._WRITERS.get(type(value))
        # A key may be an instance of a hashable subclass of an unhashable type.
        if write is None or (self._in_key and type(value).__hash__ is None):
            return self._other(_qualified_name(kind))
        return write(self, value, depth)

    def _other(self, what: str) -> Tree:
        """The tree that is sent in place of a value that cannot cross."""
        if self._strict:
            raise ProtocolError(f"{''.join(f'[{at!r}]' for at in self._path) or 'it'} is {what}")
        return {"other": what}

    def _part(self, at: object, value: object, depth: int) -> Tree:
        self._path.append(at)
        tree = self.tree(value, depth)
        self._path.pop()
        return tree

    def _has_room(self, parts: int, depth: int) -> bool:
        """Count the parts of a value; return whether they may cross."""
        self._nodes += parts
        return depth < MAX_DEPTH and self._nodes <= MAX_NODES

    def _sequence(self, value: Sequence[object], depth: int) -> Tree:
        if not self._has_room(len(value), depth):
            return self._other(TOO_MUCH)
        kind = "list" if type(value) is list else "tuple"
        return {
            kind: [
                part if type(part) in SIMPLE else self._part(i, part, depth + 1)
                for i, part in enumerate(value)
            ]
        }

    def _dict(self, value: dict[object, object], depth: int) -> Tree:
        self._keys += len(value)
        if self._keys > MAX_KEYS:
            return self._other("a dict with too many keys")
        if not self._has_room(2 * len(value), depth):
            return self._other(TOO_MUCH)
        return {
            "dict": [
                [
                    key if type(key) is str else self._key(key, depth + 1),
                    part if type(part) in SIMPLE else self._part(key, part, depth + 1),
                ]
                for key, part in value.items()
            ]
        }

    def _key(self, key: object, depth: int) -> Tree:
        outermost, self._in_key = not self._in_key, True
        tree = self._part("a key", key, depth)
        self._in_key = not outermost
        return tree

    def _bytes(self, value: bytes, depth: int) -> Tree:
        return {"bytes": self._blob(value)}

    def _dtype(self, value: torch.dtype, depth: int) -> Tree:
        return {"dtype": DTYPE_NAMES[value]} if value in DTYPE_NAMES else self._other(str(value))

    def _array(self, value: "np.ndarray[Any, Any]", depth: int) -> Tree:
        if not ARRAY_DTYPE.fullmatch(value.dtype.str):
            return self._other(f"numpy array of {value.dtype}")
        contiguous = np.ascontiguousarray(value).reshape(value.shape)
        blob = self._blob(contiguous.reshape(-1).view(np.uint8).data)
        return {"array": [value.dtype.str, list(value.shape), blob]}

    def _tensor(self, value: Tensor, depth: int) -> Tree:
        x = value.detach()  # also unwraps a tensor that has left torch.func.grad
        dtype = DTYPE_NAMES.get(x.dtype)
        if dtype is None or x.layout != torch.strided or x.is_quantized:
            return self._other(f"a {x.layout} tensor of {x.dtype}")
        blob = None
        if not x.is_meta:
            if not x.is_cpu or x.is_conj() or x.is_neg():
                x = x.resolve_conj().resolve_neg().cpu()
            if not self._views and not (
                x.is_contiguous() and x.untyped_storage().nbytes() == x.nbytes
            ):
                x = x.clone(memory_format=torch.contiguous_format)
            blob = self._storage(x.untyped_storage())
        return {"tensor": [dtype, [*x.shape], [*x.stride()], x.storage_offset(), blob]}

    def _storage(self, storage: torch.UntypedStorage) -> int:
        blob = self._storages.get(storage._cdata)
        if blob is None:
            blob = self._storages[storage._cdata] = self._blob(_memory_of(storage))
        return blob

    def _blob(self, data: Buffer) -> int:
        padding = -self._end % 16  # aligns every dtype in the receiver's buffer
        if padding:
            self.blobs.append(bytes(padding))
        start = self._end + padding
        self._end = start + len(data)
        self.blobs.append(data)
        self.places.append([start, len(data)])
        return len(self.places) - 1

    _WRITERS: ClassVar[dict[type, Callable[..., Tree]]] = {
        list: _sequence,
        tuple: _sequence,
        torch.Size: _sequence,
        dict: _dict,
        bytes: _bytes,
        torch.dtype: _dtype,
        np.ndarray: _array,
        np.memmap: _array,
        Tensor: _tensor,
        torch.nn.Parameter: _tensor,
    }


def _memory_of(storage: torch.UntypedStorage) -> memoryview:
    """The bytes of a storage, not copied; the result keeps the storage alive."""
    # The way through a numpy array takes ten times as long.
    data = (ctypes.c_char * storage.nbytes()).from_address(storage.data_ptr())
    data.storage = storage  # type: ignore[attr-defined]
    return memoryview(data)


class _Decoder:
    def __init__(self, places: list[list[int]], body: memoryview) -> None:
        self._body = body
        self._blobs = [self._place(start, length) for start, length in places]
        self._storages: dict[int, torch.UntypedStorage] = {}
        self._nodes = 0
        self._keys = 0
        self._copied = 0  # bytes of byte strings; many may name one blob

    def _place(self, start: int, length: int) -> memoryview:
        if type(start) is not int or type(length) is not int or start < 0 or length < 0:
            raise ValueError("a blob's place is not two counts")
        if start + length > len(self._body):
            raise ValueError("a blob lies outside the body")
        return self._body[start : start + length]

    def value(self, tree: Tree, depth: int) -> Any:
        if not isinstance(tree, dict):
            if isinstance(tree, list):
                raise ValueError("a bare list")
            return tree
        if depth > MAX_DEPTH:
            raise ValueError("nested too deep")
        ((kind, content),) = tree.items()
        return self._READERS[kind](self, content, depth + 1)

    def _parts(self, content: Tree) -> list[Any]:
        """Count the parts of a list or dict."""
        parts = _a_list(content)
        self._nodes += len(parts)
        if self._nodes > MAX_NODES:
            raise ValueError("too many parts")
        return parts

    def _read_list(self, content: Tree, depth: int) -> list[Any]:
        parts = self._parts(content)
        return [part if type(part) in ATOMS else self.value(part, depth) for part in parts]

    def _read_tuple(self, content: Tree, depth: int) -> tuple[Any, ...]:
        return tuple(self._read_list(content, depth))

    def _read_dict(self, content: Tree, depth: int) -> dict[Any, Any]:
        self._keys += len(self._parts(content))
        if self._keys > MAX_KEYS:
            raise ValueError("too many keys")
        return {
            key if type(key) is str else self.value(key, depth): part
            if type(part) in ATOMS
            else self.value(part, depth)
            for key, part in content
        }

    def _read_bytes(self, content: Tree, depth: int) -> bytes:
        blob = self._blobs[_index(content)]
        self._copied += len(blob)
        if self._copied > MAX_BODY_BYTES:
            raise ValueError("more bytes than a frame may hold")
        return bytes(blob)

    def _read_dtype(self, content: Tree, depth: int) -> torch.dtype:
        return DTYPES[content]

    def _read_other(self, content: Tree, depth: int) -> Other:
        return Other(str(content)[:200])

    def _read_array(self, content: Tree, depth: int) -> "np.ndarray[Any, Any]":
        dtype, shape, blob = content
        if not ARRAY_DTYPE.fullmatch(dtype):
            raise ValueError("not a plain numpy dtype")
        return np.frombuffer(self._blobs[_index(blob)], dtype=np.dtype(dtype)).reshape(
            _sizes(shape)
        )

    def _read_tensor(self, content: Tree, depth: int) -> Tensor:
        name, shape, stride, offset, blob = content
        dtype, size, last = DTYPES[name], 1, _index(offset)
        for n, step in zip(_sizes(shape), _sizes(stride), strict=True):
            size *= n
            last += (n - 1) * step
        if blob is None:
            return torch.empty_strided(shape, stride, dtype=dtype, device="meta")
        if size * dtype.itemsize > MAX_BODY_BYTES:
            raise ValueError("a tensor shows more than a frame may hold")
        data = self._blobs[_index(blob)]
        if size and last >= len(data) // dtype.itemsize:
            raise ValueError("a tensor reaches outside its storage")
        return torch.empty(0, dtype=dtype).set_(self._storage(blob, data), offset, shape, stride)

    def _storage(self, blob: int, data: memoryview) -> torch.UntypedStorage:
        """A blob as a storage, created once, so that its views share one storage here too."""
        storage = self._storages.get(blob)
        if storage is None:
            raw = (
                torch.frombuffer(data, dtype=torch.uint8)
                if data
                else torch.empty(0, dtype=torch.uint8)
            )
            storage = self._storages[blob] = raw.untyped_storage()
        return storage

    _READERS: ClassVar[dict[str, Callable[..., Any]]] = {
        "list": _read_list,
        "tuple": _read_tuple,
        "dict": _read_dict,
        "bytes": _read_bytes,
        "dtype": _read_dtype,
        "other": _read_other,
        "array": _read_array,
        "tensor": _read_tensor,
    }


def _a_list(content: Tree) -> list[Any]:
    if not isinstance(content, list):
        raise ValueError("not a list")
    return content


def _index(content: Tree) -> int:
    if type(content) is not int or content < 0:
        raise ValueError("not an index")
    return content


def _sizes(content: Tree) -> list[int]:
    if type(content) is not list or len(content) > 64:
        raise ValueError("not a shape")
    for n in content:
        if type(n) is not int or not 0 <= n < 2**62:
            raise ValueError("not a shape")
    return content


def _plain(value: object) -> object:
    """The plain value that a value of a related type represents, or else the value itself.

    Related types are subclasses of plain types, numpy's scalars, and mappings and tensors of any
    type. A float is converted only if its value stays exact. Where possible, the plain types' own
    methods are called, because a subclass's methods may return anything. If the result is still
    wrong, that harms only the sender.
    """
    kind = type(value)
    for base, convert in _CONVERSIONS:
        if issubclass(kind, base):
            try:
                return convert(value)
            except Exception:
                return value
    return value


def _plain_number(value: "np.generic[Any]") -> object:
    number = np.generic.item(value)
    if isinstance(number, np.longdouble) and float(number) == number:
        return float(number)
    return number if type(number) in (bool, int, float) else value


def _plain_dict(value: Mapping[object, object]) -> dict[object, object]:
    """The first MAX_KEYS + 1 items of a mapping, which may be endless; that exceeds the limit."""
    return dict(itertools.islice(((key, value[key]) for key in value), MAX_KEYS + 1))


def _plain_tensor(value: Tensor) -> Tensor:
    with torch._C.DisableTorchFunctionSubclass():
        return Tensor.as_subclass(Tensor.detach(value), Tensor)


_CONVERSIONS: list[tuple[type, Callable[[Any], object]]] = [
    (int, int.__int__),
    (float, float.__float__),
    (str, str.__str__),
    (bytes, lambda value: bytes.__getitem__(value, slice(None))),
    (np.generic, _plain_number),
    (list, lambda value: list.__getitem__(value, slice(None))),
    (tuple, lambda value: tuple.__getitem__(value, slice(None))),
    (dict, lambda value: dict(dict.items(value))),
    (Mapping, _plain_dict),
    (Tensor, _plain_tensor),
    (np.ndarray, lambda value: np.ndarray.view(value, np.ndarray)),
]


def _qualified_name(kind: type) -> str:
    """A type's name as its own attributes state it, even if that is false."""
    module, name = getattr(kind, "__module__", ""), getattr(kind, "__qualname__", "")
    text = str(name) if module in ("builtins", None) else f"{module}.{name}"
    return text[:200]
