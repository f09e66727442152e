"""Frames and the codec: the only data that crosses between the grader and the sandbox.

The format of a frame, in both directions:

- 4 bytes: length of the head, big-endian; 8 bytes: length of the body, big-endian
- the head: a tree in JSON
- the body: raw bytes of tensors, arrays and byte strings, one after the other

A tree is None, a bool, an int, a float or a string in JSON (including NaN and infinities), or an
object with one key that names its kind: `list`, `tuple`, `dict` (with strings as keys), `pairs` (a
dict with other keys), `bytes`, `dtype`, `tensor`, `view`, `array`, `other`.

A `tensor` is the number of its dtype, the place of its bytes in the body, and its shape. It has a
storage of its own, and shows all of it in order. Any other tensor is a `view`: the number of its
dtype, its offset, the place and the size of its storage, its shape and its strides. So views of one
storage arrive as views of one storage. The place of a storage on the meta device is -1. An `array`
is the name of its dtype, its shape, and the place and the size of its bytes.

The numbers of tensors and arrays are checked here, as ints of Python, before torch or NumPy sees
them, because their own checks may overflow. What passes is aligned and lies within its bytes. This
includes tensors without elements or bytes: no product of their sizes and strides overflows.

Values that a student's code returns are handled leniently: a value of a related type crosses as the
plain value that it represents (see `_plain`), and any other value crosses as `other`, with only the
name of its type. Values that a test sends are handled strictly: both cases are errors.

This module runs on both sides. It imports neither torch nor numpy: torch_codec.py and
numpy_codec.py teach it their values, in a process that has imported the library. Before that, no
value can be a tensor or an array, and a frame with one is not a frame. Reading a frame never
executes code: a hostile frame becomes a value or a `ProtocolError`, and can at most occupy memory
up to the length limits. The answers of a test have a limit of their own, so that the grader needs
little memory whatever they are.
"""

import importlib
import itertools
import json
import mmap
import socket
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

HEADER = struct.Struct("!IQ")
MAX_HEAD_BYTES = 2 * 2**20
MAX_BODY_BYTES = 512 * 2**20
# What all answers of a test may take together; those of the largest hidden test take 2 MiB.
MAX_ANSWER_BYTES = 16 * 2**20
# How much memory a byte of a head may become: the number in "1e9," takes 32 bytes.
BYTES_PER_HEAD_BYTE = 10
MOST_BUFFERS = 64  # that one system call writes; the system accepts 1024
MAX_DEPTH = 24
MAX_NODES = 100_000
# The most keys in all dicts together. Colliding keys would take quadratic time.
MAX_KEYS = 1024
MAX_INT_BITS = 8192
# In bytes; fits every dtype. If a complex number is not aligned, torch crashes.
ALIGNMENT = 16
MAX_DIMS = 64
# The most elements that a tensor may have or reach. Their bytes are an int64 in every dtype.
MAX_ELEMENTS = 2**59 - 1
LARGE = 2**16  # bytes
PADDING = [bytes(-size % ALIGNMENT) for size in range(ALIGNMENT)]
ATOMS = frozenset([type(None), bool, int, float, str])
SIMPLE = ATOMS - {int}  # an int may be too large

TOO_MUCH = "a value nested too deep or with too many parts"
MOST = f"the answers of a test may take {MAX_ANSWER_BYTES}"

Tree = Any
Buffer = memoryview | bytes

# The modules that teach this one the values of a library.
TEACHERS = {"torch": "grader.wire.torch_codec", "numpy": "grader.wire.numpy_codec"}
LIBRARY_OF = {"dtype": "torch", "tensor": "torch", "view": "torch", "array": "numpy"}


class ProtocolError(Exception):
    """The other side sent something that is not a frame, or a value cannot be encoded."""


@dataclass(frozen=True)
class Other:
    """A value that is not plain data; only the name of its type crosses."""

    type_name: str


def encode(
    value: object, *, views: bool = False, strict: bool = False, most_bytes: int = MAX_BODY_BYTES
) -> list[Buffer]:
    """Encode `value` as a frame: buffers to be written one after the other.

    Args:
        value: Plain data. A related type crosses as the plain value that it represents, anything
            else as `Other`.
        views: Keep strides, offsets and shared storages of tensors by sending each storage whole.
            Without it, tensors are sent contiguous, so that a small view of a large storage stays
            small; the stride of a dimension of size 1 may change.
        strict: Refuse anything that is not already plain data.
        most_bytes: How much memory the value may take on the other side.

    Raises:
        ProtocolError: The value is too large for a frame, or is refused; the message names the
            part and the reason.
    """
    encoder = Encoder(views, strict)
    try:
        tree = encoder.part(None, value, 0)
    except _NotSendable as e:
        path = "".join(f"[{at!r}]" for at in e.path[-2::-1])
        raise ProtocolError(f"{path or 'it'} is {e.what}") from None
    head = _to_json(tree).encode("utf-8", "surrogatepass")
    size = max(encoder.size, encoder.shown)
    if len(head) > MAX_HEAD_BYTES or memory_of(len(head), size) > most_bytes:
        raise ProtocolError(f"a value of {len(head) + size} bytes is too large for a frame")
    return [HEADER.pack(len(head), encoder.size), head, *encoder.body]


def memory_of(head_bytes: int, body_bytes: int) -> int:
    """How much memory the value of a frame may take."""
    return body_bytes + BYTES_PER_HEAD_BYTE * head_bytes


# json.dumps would make such an encoder for each value. A tree has no circles.
_to_json = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode
_from_json = json.JSONDecoder().decode


def decode(head: Buffer, body: memoryview, most_shown: int = MAX_BODY_BYTES) -> Any:
    """Decode a frame.

    Tensors and arrays are views of `body`, which must be writable, aligned, and stay alive.

    Args:
        head: The tree.
        body: The bytes.
        most_shown: How many bytes all tensors and arrays together may show, each byte counted as
            often as it is shown.

    Raises:
        ProtocolError: The bytes are not a valid frame, or a tensor does not fit its bytes.
    """
    return Decoder(body, most_shown).value_of(head)


def send(sock: socket.socket, value: object) -> None:
    """Write `value` as one frame; block until it is written."""
    write(sock, encode(value))


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
    """Collects one frame from a socket, piece by piece, and allocates only what the caps allow.

    Args:
        most_bytes: How much memory the value of the frame may take.
    """

    def __init__(self, most_bytes: int = MAX_BODY_BYTES) -> None:
        self._most_bytes = most_bytes
        self._header = bytearray(HEADER.size)
        self._frame: memoryview | None = None  # the head and the body
        self._head_size = 0
        self._empty = memoryview(self._header)  # what is still to be filled
        # How much memory the value may take, and copies of its tensors; 0 before `value`.
        self.kept_bytes = 0

    def read_from(self, sock: socket.socket) -> bool:
        """Read from the socket what there is of the frame; return True when it is complete.

        Raises:
            EOFError: The other side closed before the frame was complete.
            ProtocolError: The header claims more than a frame may hold.
        """
        self._fill(sock)
        if not self._empty and self._frame is None:
            self._empty = self._frame = self._allocated()
            if self._empty:
                try:  # the rest usually arrives together with the header
                    self._fill(sock, socket.MSG_DONTWAIT)
                except BlockingIOError:
                    return False
        return not self._empty

    def value(self) -> Any:
        """The value of the complete frame.

        Raises:
            ProtocolError: It has none.
        """
        assert self._frame is not None
        head, body = self._frame[: self._head_size], self._frame[self._head_size :]
        decoder = Decoder(body, self._most_bytes)
        value = decoder.value_of(head)
        self.kept_bytes = memory_of(len(head), max(len(body), decoder.shown))
        return value

    def _fill(self, sock: socket.socket, flags: int = 0) -> None:
        received = sock.recv_into(self._empty, 0, flags)
        if received == 0:
            raise EOFError
        self._empty = self._empty[received:]

    def _allocated(self) -> memoryview:
        """Room for what the header announces."""
        head, body = HEADER.unpack(self._header)
        if head > MAX_HEAD_BYTES or memory_of(head, body) > self._most_bytes:
            raise ProtocolError(f"a frame claims {head} + {body} bytes; {MOST}")
        self._head_size = head
        unused = -head % ALIGNMENT  # so that the body is aligned
        return _room(unused + head + body)[unused:]


def _room(size: int) -> memoryview:
    """Room for this many bytes, aligned; a large room takes no memory until it is filled."""
    if size < LARGE:
        return memoryview(bytearray(size))
    return memoryview(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))


@dataclass
class _NotSendable(Exception):
    """A part of a value that may not be sent."""

    what: str  # the words that describe the part
    # The indices and keys that lead to it, from the inside out.
    path: list[object] = field(default_factory=list)


class Encoder:
    """Makes the tree and the body of a value."""

    def __init__(self, views: bool, strict: bool) -> None:
        self.views = views  # see `encode`
        self._strict = strict
        self.storages: dict[int, int] = {}  # the place of each storage in the body, by its address
        self._nodes = 1
        self._keys = 0
        self.body: list[Buffer] = []  # the buffers, which keep their memory alive
        # The bytes that its tensors show, each counted as often as it is shown.
        self.size = self.shown = 0

    def part(self, at: object, value: object, depth: int) -> Tree:
        """The tree of a value, which is at this index or key of another value."""
        try:
            write = WRITERS.get(type(value))
            return write(self, value, depth) if write else self._related(value, depth)
        except _NotSendable as e:
            e.path.append(at)
            raise

    def _related(self, value: object, depth: int) -> Tree:
        """The tree of the plain value that this value represents."""
        learn()
        plain = value if self._strict else _plain(value)
        write = WRITERS.get(type(plain))
        return write(self, plain, depth) if write else self.other(_qualified_name(type(value)))

    def other(self, what: str) -> Tree:
        """The tree that is sent in place of a value that cannot cross."""
        if self._strict:
            raise _NotSendable(what)
        return {"other": what}

    def _atom(self, value: object, depth: int) -> Tree:
        return value

    def _int(self, value: int, depth: int) -> Tree:
        bits = value.bit_length()
        return value if bits <= MAX_INT_BITS else self.other(f"int of {bits} bits")

    def _has_room(self, parts: int, depth: int) -> bool:
        """Count the parts of a value; return whether they may cross."""
        self._nodes += parts
        return depth < MAX_DEPTH and self._nodes <= MAX_NODES

    def _sequence(self, value: Sequence[object], depth: int) -> Tree:
        if not self._has_room(len(value), depth):
            return self.other(TOO_MUCH)
        kind = "list" if type(value) is list else "tuple"
        return {
            kind: [
                part if type(part) in SIMPLE else self.part(i, part, depth + 1)
                for i, part in enumerate(value)
            ]
        }

    def _dict(self, value: dict[object, object], depth: int) -> Tree:
        self._keys += len(value)
        if self._keys > MAX_KEYS:
            return self.other("a dict with too many keys")
        if not self._has_room(2 * len(value), depth):
            return self.other(TOO_MUCH)
        if {*map(type, value)} <= {str}:
            return {
                "dict": {
                    key: part if type(part) in SIMPLE else self.part(key, part, depth + 1)
                    for key, part in value.items()
                }
            }
        return {
            "pairs": [
                [self.part("a key", key, depth + 1), self.part(key, part, depth + 1)]
                for key, part in value.items()
            ]
        }

    def _bytes(self, value: bytes, depth: int) -> Tree:
        return {"bytes": [self.blob(value), len(value)]}

    def blob(self, data: Buffer) -> int:
        """Add bytes to the body, and return their place in it."""
        if padding := PADDING[self.size % ALIGNMENT]:
            self.body.append(padding)
        start = self.size + len(padding)
        self.body.append(data)
        self.size = start + len(data)
        return start


class Decoder:
    """Makes a value of a tree and a body."""

    def __init__(self, body: memoryview, most_shown: int) -> None:
        self.body = body  # the bytes
        self._most_shown = most_shown
        self.storages: dict[int, Any] = {}  # the storages of tensors, by their place in the body
        # The bytes that its tensors and arrays show, each counted as often as it is shown.
        self.shown = 0
        self._nodes = 0
        self._keys = 0
        self._copied = 0  # bytes of byte strings; a hostile frame has many at one place

    def value_of(self, head: Buffer) -> Any:
        """The value of a frame; see `decode`."""
        try:
            return self.value(_from_json(str(head, "utf-8", "surrogatepass")), 0)
        except (ValueError, LookupError, TypeError, ArithmeticError, RuntimeError) as e:
            raise ProtocolError(f"not a frame: {type(e).__name__}") from None

    def value(self, tree: Tree, depth: int) -> Any:
        if type(tree) is not dict:
            if type(tree) is list:
                raise ValueError("a bare list")
            return tree
        if depth > MAX_DEPTH:
            raise ValueError("nested too deep")
        ((kind, content),) = tree.items()
        if kind not in READERS:
            learn()
        if kind in LIBRARY_OF and kind not in READERS:
            library = LIBRARY_OF[kind]
            raise ProtocolError(f"a value of {library} arrived where {library} is not imported")
        return READERS[kind](self, content, depth + 1)

    def blob(self, start: Tree, size: Tree) -> memoryview:
        """Bytes of the body."""
        if index(start) % ALIGNMENT or start + index(size) > len(self.body):
            raise ValueError("not a place in the body")
        return self.body[start : start + size]

    def show(self, size: int) -> None:
        """Count the bytes of a tensor or an array."""
        self.shown += size
        if self.shown > self._most_shown:
            raise ProtocolError(f"its tensors and arrays show {self.shown} bytes; {MOST}")

    def _parts(self, content: Tree) -> list[Any]:
        """Count the parts of a list or dict."""
        if not isinstance(content, list):
            raise ValueError("not a list")
        self._nodes += len(content)
        if self._nodes > MAX_NODES:
            raise ValueError("too many parts")
        return content

    def _read_list(self, content: Tree, depth: int) -> list[Any]:
        parts = self._parts(content)
        return [part if type(part) in ATOMS else self.value(part, depth) for part in parts]

    def _read_tuple(self, content: Tree, depth: int) -> tuple[Any, ...]:
        return tuple(self._read_list(content, depth))

    def _read_dict(self, content: Tree, depth: int) -> dict[Any, Any]:
        if type(content) is not dict:
            raise ValueError("not a dict")
        self._count_keys(len(content))
        return {
            key: part if type(part) in ATOMS else self.value(part, depth)
            for key, part in content.items()
        }

    def _read_pairs(self, content: Tree, depth: int) -> dict[Any, Any]:
        self._count_keys(len(self._parts(content)))
        return {self.value(key, depth): self.value(part, depth) for key, part in content}

    def _count_keys(self, count: int) -> None:
        self._keys += count
        if self._keys > MAX_KEYS:
            raise ValueError("too many keys")

    def _read_bytes(self, content: Tree, depth: int) -> bytes:
        blob = self.blob(*content)
        self._copied += len(blob)
        if self._copied > len(self.body):
            raise ValueError("byte strings overlap")
        return bytes(blob)

    def _read_other(self, content: Tree, depth: int) -> Other:
        return Other(str(content)[:200])


# How each kind of value is written.
WRITERS: dict[type, Callable[..., Tree]] = {
    **dict.fromkeys(ATOMS, Encoder._atom),
    **dict.fromkeys([tuple, list], Encoder._sequence),
    int: Encoder._int,
    bytes: Encoder._bytes,
    dict: Encoder._dict,
}
# How each kind of tree is read.
READERS: dict[str, Callable[[Decoder, Tree, int], Any]] = {
    "list": Decoder._read_list, "tuple": Decoder._read_tuple, "dict": Decoder._read_dict,
    "pairs": Decoder._read_pairs, "bytes": Decoder._read_bytes, "other": Decoder._read_other,
}  # fmt: skip


def learn() -> None:
    """Learn the values of the libraries that this process has imported by now.

    A process that will not find the grader's modules later calls this in time; the values of a
    library that it imports after that stay unknown.
    """
    for library, teacher in TEACHERS.items():
        if library in sys.modules and library not in _known:
            _known.add(library)
            with suppress(ModuleNotFoundError):
                importlib.import_module(teacher).teach()


_known: set[str] = set()


def index(content: Tree) -> int:
    if type(content) is not int or content < 0:
        raise ValueError("not an index")
    return content


def elements(shape: Tree) -> int:
    """How many elements a tensor or an array with these sizes has."""
    if type(shape) is not list or len(shape) > MAX_DIMS:
        raise ValueError("not a shape")
    without_zeros = 1
    for n in shape:
        without_zeros *= index(n) or 1
    if without_zeros > MAX_ELEMENTS:
        raise ValueError("too many elements")
    return 0 if 0 in shape else without_zeros


def _plain(value: object) -> object:
    """The plain value that a value of a related type represents, or else the value itself.

    Related types are subclasses of plain types, numpy's scalars, and mappings and tensors of any
    type. A float is converted only if its value stays exact. Where possible, the plain types' own
    methods are called, because a subclass's methods may return anything. If the result is still
    wrong, that harms only the sender.
    """
    kind = type(value)
    for base, convert in CONVERSIONS:
        if issubclass(kind, base):
            try:
                return convert(value)
            except Exception:
                return value
    return value


def _plain_dict(value: Mapping[object, object]) -> dict[object, object]:
    """The first MAX_KEYS + 1 items of a mapping, which may be endless; that exceeds the limit."""
    return dict(itertools.islice(((key, value[key]) for key in value), MAX_KEYS + 1))


CONVERSIONS: list[tuple[type, Callable[[Any], object]]] = [
    (int, int.__int__),
    (float, float.__float__),
    (str, str.__str__),
    (bytes, lambda value: bytes.__getitem__(value, slice(None))),
    (list, lambda value: list.__getitem__(value, slice(None))),
    (tuple, lambda value: tuple.__getitem__(value, slice(None))),
    (dict, lambda value: dict(dict.items(value))),
    (Mapping, _plain_dict),
]


def _qualified_name(kind: type) -> str:
    """A type's name as its own attributes state it, even if that is false."""
    module, name = getattr(kind, "__module__", ""), getattr(kind, "__qualname__", "")
    text = str(name) if module in ("builtins", None) else f"{module}.{name}"
    return text[:200]
