"""Frames and the codec: what crosses the line between the grader and the sandbox, and nothing else does.

A frame, both ways:

- 4 bytes: length of the head, big-endian; 8 bytes: length of the body, big-endian
- the head: JSON, `{"value": tree, "blobs": [[start, bytes], ...]}`
- the body: raw bytes of tensors, arrays and byte strings, one after the other

A tree is None, a bool, an int, a float or a string as JSON has them (NaN and infinities included), or an object with one
key that says what it is: `list`, `tuple`, `dict` (pairs), `bytes`, `dtype`, `tensor`, `array`, `other`. A tensor is a dtype, a
shape, strides and an offset into a blob, so that views of one storage arrive as views of one storage; its bounds are checked
before anything is built on it. A value of any other type arrives as `other`, the name of its type.

This module runs on both sides, so it imports the standard library, torch and numpy alone. Reading never executes anything:
a hostile frame costs at most its capped length and ends in a `ProtocolError`.
"""

import json
import math
import re
import socket
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

HEADER = struct.Struct("!IQ")
MAX_HEAD_BYTES = 4 * 2**20
MAX_BODY_BYTES = 512 * 2**20
MAX_DEPTH = 24
MAX_NODES = 100_000
MAX_KEYS = 1024  # of all dicts together: keys made to collide take time that grows with their square
MAX_INT_BITS = 8192

Tree = Any
Buffer = memoryview | bytes

DTYPES: dict[str, torch.dtype] = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in [
        torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2,
        torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.uint16, torch.uint32, torch.uint64,
        torch.bool, torch.complex64, torch.complex128,
    ]
}  # fmt: skip
DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}
ARRAY_DTYPE = re.compile(r"[<>|]?[biufc](1|2|4|8|16)")


class ProtocolError(Exception):
    """The other side sent something that is not a frame, or a value that cannot cross."""


@dataclass(frozen=True)
class Other:
    """A value that is not plain data: all that crosses is the name of its type."""

    type_name: str


def encode(value: object, *, views: bool = False) -> list[Buffer]:
    """A frame for `value`, as buffers to be written one after the other.

    Args:
        value: Plain data; anything else crosses as `Other`.
        views: Keep strides, offsets and shared storages of tensors, by sending each storage whole. Without it, tensors
            are sent contiguous, so that a small view of a large storage stays small.

    Raises:
        ProtocolError: The value is larger than a frame may be.
    """
    encoder = _Encoder(views)
    tree = encoder.tree(value, 0)
    head = json.dumps({"value": tree, "blobs": encoder.places}, ensure_ascii=False).encode("utf-8", "surrogatepass")
    body = sum(len(blob) for blob in encoder.blobs)
    if len(head) > MAX_HEAD_BYTES or body > MAX_BODY_BYTES:
        raise ProtocolError(f"a value of {len(head) + body} bytes is larger than a frame may be")
    return [HEADER.pack(len(head), body), head, *encoder.blobs]


def decode(head: bytes, body: memoryview) -> Any:
    """The value of a frame. Tensors and arrays are built on `body`, which must be writable and stay alive.

    Raises:
        ProtocolError: It is no frame of ours, or a tensor in it does not fit its bytes.
    """
    try:
        outer = json.loads(head)
        return _Decoder(outer["blobs"], body).value(outer["value"], 0)
    except (ValueError, LookupError, TypeError, RecursionError, OverflowError, RuntimeError) as e:
        raise ProtocolError(f"not a frame: {type(e).__name__}") from None


def send(sock: socket.socket, value: object, *, views: bool = False) -> None:
    """Write `value` as one frame, waiting for as long as it takes."""
    for buffer in encode(value, views=views):
        sock.sendall(buffer)


def receive(sock: socket.socket) -> Any:
    """Read one frame, waiting for as long as it takes.

    Raises:
        EOFError: The other side has closed.
        ProtocolError: What came is no frame.
    """
    reader = FrameReader()
    while not reader.read_from(sock):
        pass
    return reader.value()


class FrameReader:
    """Collects one frame from a socket, a piece at a time, and allocates only what its caps allow."""

    def __init__(self) -> None:
        self._parts = [memoryview(bytearray(HEADER.size))]
        self._filled = 0

    def read_from(self, sock: socket.socket) -> bool:
        """Take what one read gives; True when the frame is complete.

        Raises:
            EOFError: The other side closed before the frame was complete.
            ProtocolError: The header claims more than a frame may hold.
        """
        part = self._parts[-1]
        received = sock.recv_into(part[self._filled :])
        if received == 0:
            raise EOFError
        self._filled += received
        while self._filled == len(self._parts[-1]) and len(self._parts) < 3:
            self._next_part()
        return self._filled == len(self._parts[-1]) and len(self._parts) == 3

    def value(self) -> Any:
        """The value of the complete frame."""
        return decode(bytes(self._parts[1]), self._parts[2])

    def _next_part(self) -> None:
        head, body = HEADER.unpack(self._parts[0])
        if head > MAX_HEAD_BYTES or body > MAX_BODY_BYTES:
            raise ProtocolError(f"a frame claims {head} + {body} bytes")
        size = head if len(self._parts) == 1 else body
        self._parts.append(np.empty(size, dtype=np.uint8).data)  # not touched until filled
        self._filled = 0


class _Encoder:
    def __init__(self, views: bool) -> None:
        self._views = views
        self._storages: dict[int, int] = {}
        self._nodes = 0
        self._keys = 0
        self._kept: list[object] = []  # a storage's address is its name here, so it has to stay alive
        self.blobs: list[Buffer] = []
        self.places: list[list[int]] = []

    def tree(self, value: object, depth: int) -> Tree:
        self._nodes += 1
        if depth > MAX_DEPTH or self._nodes > MAX_NODES:
            return {"other": "a value nested too deep or with too many parts"}
        if type(value) is int and value.bit_length() > MAX_INT_BITS:
            return {"other": f"int of {value.bit_length()} bits"}
        if value is None or type(value) in (bool, int, float, str):
            return value
        write = self._WRITERS.get(type(value))
        return write(self, value, depth + 1) if write else {"other": _qualified_name(type(value))}

    def _sequence(self, value: Sequence[object], depth: int) -> Tree:
        kind = "list" if type(value) is list else "tuple"
        return {kind: [self.tree(v, depth) for v in value]}

    def _dict(self, value: dict[object, object], depth: int) -> Tree:
        self._keys += len(value)
        if self._keys > MAX_KEYS:
            return {"other": "a dict with too many keys"}
        return {"dict": [[self.tree(k, depth), self.tree(v, depth)] for k, v in value.items()]}

    def _bytes(self, value: bytes, depth: int) -> Tree:
        return {"bytes": self._blob(value)}

    def _dtype(self, value: torch.dtype, depth: int) -> Tree:
        return {"dtype": DTYPE_NAMES[value]} if value in DTYPE_NAMES else {"other": str(value)}

    def _array(self, value: "np.ndarray[Any, Any]", depth: int) -> Tree:
        if not ARRAY_DTYPE.fullmatch(value.dtype.str):
            return {"other": f"numpy array of {value.dtype}"}
        contiguous = np.ascontiguousarray(value).reshape(value.shape)
        blob = self._blob(contiguous.reshape(-1).view(np.uint8).data)
        return {"array": [value.dtype.str, list(value.shape), blob]}

    def _tensor(self, value: Tensor, depth: int) -> Tree:
        x = value.detach()
        if x.layout != torch.strided or x.dtype not in DTYPE_NAMES or x.is_quantized:
            return {"other": f"a {x.layout} tensor of {x.dtype}"}
        if x.device.type == "meta":
            return {"tensor": [DTYPE_NAMES[x.dtype], list(x.shape), list(x.stride()), x.storage_offset(), None]}
        x = x.resolve_conj().resolve_neg().cpu()
        if not self._views:
            x = x.contiguous()
            if x.untyped_storage().nbytes() != x.numel() * x.element_size():
                x = x.clone()
        return {"tensor": [DTYPE_NAMES[x.dtype], list(x.shape), list(x.stride()), x.storage_offset(), self._storage(x)]}

    def _storage(self, x: Tensor) -> int:
        storage = x.untyped_storage()
        if storage._cdata not in self._storages:
            raw = torch.empty(0, dtype=torch.uint8).set_(storage).numpy()
            self._kept.append(storage)
            self._storages[storage._cdata] = self._blob(raw.data)
        return self._storages[storage._cdata]

    def _blob(self, data: Buffer) -> int:
        start = sum(self.places[-1]) if self.places else 0
        padding = -start % 16  # so that every dtype is aligned in the receiver's buffer
        if padding:
            self.blobs.append(bytes(padding))
        self.blobs.append(data)
        self.places.append([start + padding, len(data)])
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


class _Decoder:
    def __init__(self, places: list[list[int]], body: memoryview) -> None:
        self._body = body
        self._blobs = [self._place(start, length) for start, length in places]
        self._storages: dict[int, torch.UntypedStorage] = {}
        self._nodes = 0
        self._keys = 0

    def _place(self, start: int, length: int) -> memoryview:
        if type(start) is not int or type(length) is not int or start < 0 or length < 0:
            raise ValueError("a blob's place is not two counts")
        if start + length > len(self._body):
            raise ValueError("a blob lies outside the body")
        return self._body[start : start + length]

    def value(self, tree: Tree, depth: int) -> Any:
        self._nodes += 1
        if depth > MAX_DEPTH + 1 or self._nodes > 2 * MAX_NODES:
            raise ValueError("nested too deep or too many parts")
        if not isinstance(tree, dict):
            if isinstance(tree, list):
                raise ValueError("a bare list")
            return tree
        ((kind, content),) = tree.items()
        return getattr(self, f"_read_{kind}", self._unknown)(content, depth + 1)

    def _unknown(self, content: Tree, depth: int) -> Any:
        raise ValueError("an unknown kind of value")

    def _read_list(self, content: Tree, depth: int) -> list[Any]:
        return [self.value(v, depth) for v in _a_list(content)]

    def _read_tuple(self, content: Tree, depth: int) -> tuple[Any, ...]:
        return tuple(self._read_list(content, depth))

    def _read_dict(self, content: Tree, depth: int) -> dict[Any, Any]:
        self._keys += len(_a_list(content))
        if self._keys > MAX_KEYS:
            raise ValueError("too many keys")
        return {self.value(k, depth): self.value(v, depth) for k, v in content}

    def _read_bytes(self, content: Tree, depth: int) -> bytes:
        return bytes(self._blobs[_index(content)])

    def _read_dtype(self, content: Tree, depth: int) -> torch.dtype:
        return DTYPES[content]

    def _read_other(self, content: Tree, depth: int) -> Other:
        return Other(str(content)[:200])

    def _read_array(self, content: Tree, depth: int) -> "np.ndarray[Any, Any]":
        dtype, shape, blob = content
        if not ARRAY_DTYPE.fullmatch(dtype):
            raise ValueError("not a plain numpy dtype")
        return np.frombuffer(self._blobs[_index(blob)], dtype=np.dtype(dtype)).reshape(_sizes(shape))

    def _read_tensor(self, content: Tree, depth: int) -> Tensor:
        name, shape, stride, offset, blob = content
        dtype, shape, stride = DTYPES[name], _sizes(shape), _sizes(stride)
        if len(shape) != len(stride) or type(offset) is not int or offset < 0:
            raise ValueError("strides or offset do not fit the shape")
        if blob is None:
            return torch.empty_strided(shape, stride, dtype=dtype, device="meta")
        storage = self._storage(_index(blob))
        if math.prod(shape) * dtype.itemsize > MAX_BODY_BYTES:
            raise ValueError("a tensor shows more than a frame may hold")
        last = offset + sum((n - 1) * s for n, s in zip(shape, stride, strict=True))
        if math.prod(shape) and last >= storage.nbytes() // dtype.itemsize:
            raise ValueError("a tensor reaches outside its storage")
        return torch.empty(0, dtype=dtype).set_(storage, offset, shape, stride)

    def _storage(self, blob: int) -> torch.UntypedStorage:
        """The bytes of a blob as a storage, made once, so that views of one storage share it here as well."""
        if blob not in self._storages:
            data = self._blobs[blob]
            raw = torch.frombuffer(data, dtype=torch.uint8) if len(data) else torch.empty(0, dtype=torch.uint8)
            self._storages[blob] = raw.untyped_storage()
        return self._storages[blob]


def _a_list(content: Tree) -> list[Any]:
    if not isinstance(content, list):
        raise ValueError("not a list")
    return content


def _index(content: Tree) -> int:
    if type(content) is not int or content < 0:
        raise ValueError("not an index")
    return content


def _sizes(content: Tree) -> tuple[int, ...]:
    if not isinstance(content, list) or len(content) > 64:
        raise ValueError("not a shape")
    if any(type(n) is not int or not 0 <= n < 2**62 for n in content):
        raise ValueError("not a shape")
    return tuple(content)


def _qualified_name(kind: type) -> str:
    """A type's name as its author wrote it; a type that lies about its name gets away with it."""
    module, name = getattr(kind, "__module__", ""), getattr(kind, "__qualname__", "")
    text = str(name) if module in ("builtins", None) else f"{module}.{name}"
    return text[:200]
