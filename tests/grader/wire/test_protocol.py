"""The protocol: every kind of value crosses unchanged; a hostile frame is a ProtocolError."""

import enum
import itertools
import json
import math
import re
import socket
import tracemalloc
from collections import ChainMap, Counter, OrderedDict, UserDict, defaultdict, namedtuple
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from grader.wire import protocol, torch_codec
from grader.wire.protocol import HEADER, Other, ProtocolError

# The numbers of three dtypes.
F, D, Z = (
    torch_codec.NUMBER_OF_DTYPE[dtype] for dtype in (torch.float32, torch.float64, torch.complex128)
)
protocol.learn()
DEEP = "a value nested too deep or with too many parts"


def crossed(value, **options):
    """`value` as the other side receives it."""
    header, head, *blobs = protocol.encode(value, **options)
    body = bytearray(b"".join(bytes(blob) for blob in blobs))
    assert (len(head), len(body)) == HEADER.unpack(header)
    return protocol.decode(bytes(head), memoryview(body))


def decoded(tree, body=b""):
    return protocol.decode(json.dumps(tree).encode(), memoryview(bytearray(body)))


def refused(tree, body=b"", why="ValueError"):
    """Check that a frame with this head and body is refused."""
    with pytest.raises(ProtocolError, match=f"^not a frame: {why}$"):
        decoded(tree, body)


def same(a, b):
    """Compare values and exact types at every level: NaN equals NaN, and 0.0 differs from -0.0."""
    if type(a) is not type(b):
        return False
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return same([*a.items()], [*b.items()])
    if isinstance(a, float):
        return repr(a) == repr(b)
    return a == b


def frame(head, body=b""):
    return HEADER.pack(len(head), len(body)) + head + body


# --- plain data -----------------------------------------------------------------------------------

texts = st.text(st.characters(exclude_categories=()), max_size=20)
atoms = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), texts, st.binary(max_size=40)
)
keys = st.one_of(st.booleans(), st.integers(), texts, st.tuples(st.integers(), texts))
plain = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5),
        st.lists(inner, max_size=5).map(tuple),
        st.dictionaries(keys, inner, max_size=5),
    ),
    max_leaves=30,
)


# "\ud83d\ude00" is two surrogates, which must not become the one character of JSON's escapes.
PLAIN = [
    None, True, 0, 2**63, -(2**64) - 1, 2**8191, 0.1, -0.0, 5e-324, math.nan, math.inf, -math.inf,
    "", "\0", "\ud800", "\ud83d\ude00", "é\u202e\n", b"", b"\0\xff", [], (), {},
    {(1, ("a",)): [(), {}], None: b"x", 1.5: True}, [1, (1,), [1]],
    torch.float32, torch.bool, torch.bfloat16, torch.uint64,
]  # fmt: skip


@given(plain)
@example(PLAIN)
def test_plain_data_crosses_unchanged(value):
    """Also what JSON alone would change: tuples, odd keys, surrogates, infinities, big integers."""
    assert same(value, crossed(value))
    assert protocol.encode(value) == protocol.encode(value, strict=True)


# --- tensors --------------------------------------------------------------------------------------


@pytest.mark.parametrize("views", [False, True])
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (5,), (2, 3, 4)], ids=str)
@pytest.mark.parametrize("name", torch_codec.DTYPES)
def test_a_tensor_of_every_dtype_and_shape_crosses_bit_by_bit(name, shape, views):
    """0-dim and empty tensors cross too, and NaNs keep their bits, because nothing is converted."""
    dtype = torch_codec.DTYPES[name]
    count = math.prod(shape) * dtype.itemsize
    seeded = torch.Generator().manual_seed(1)
    bits = torch.randint(256, (count,), generator=seeded, dtype=torch.uint8)
    x = (bits % 2 if dtype is torch.bool else bits).view(dtype).reshape(shape)
    y = crossed(x, views=views)
    assert (torch.Tensor, x.dtype, x.shape, x.stride()) == (type(y), y.dtype, y.shape, y.stride())
    assert x.flatten().view(torch.uint8).tolist() == y.flatten().view(torch.uint8).tolist()


def test_a_tensor_that_came_can_be_written_to_and_used():
    """The tensor has its own memory, aligned for its dtype, and no gradient."""
    parameter = torch.nn.Parameter(torch.arange(6.0).reshape(2, 3))
    _, y = crossed([b"x", parameter])
    assert (torch.Tensor, False, 0) == (type(y), y.requires_grad, y.data_ptr() % 4)
    y.add_(1)
    assert (y @ y.T).tolist() == [[14.0, 32.0], [32.0, 77.0]]


def test_views_of_one_storage_still_share_it():
    """With `views`, strides, offsets, hidden bytes and views of another dtype stay unchanged."""
    base = torch.arange(24.0)
    sent = [base.view(4, 6).T, base[5:17:3], base.view(torch.int32)[3:], base.expand(2, 24)]
    sent.append(base.view(4, 6)[:, :0])
    got = crossed(sent, views=True)
    assert [(x.stride(), x.storage_offset(), x.dtype) for x in sent] == [
        (y.stride(), y.storage_offset(), y.dtype) for y in got
    ]
    assert {96} == {y.untyped_storage().nbytes() for y in got}
    assert 1 == len({y.untyped_storage()._cdata for y in got})
    got[0][5, 2] = -1.0  # element 17 of the storage
    assert -1.0 == got[3][1, 17].item()
    assert torch.tensor(-1.0).view(torch.int32).item() == got[2][14].item()
    one, other = crossed([torch.ones(3), torch.ones(3)], views=True)  # equal, on two storages
    one.zero_()
    assert [1.0] * 3 == other.tolist()


def test_a_small_view_of_a_large_storage_makes_a_small_reply():
    """Without `views`, a tensor is sent contiguous: 3 numbers take 12 bytes."""
    column = torch.arange(3_000_000.0).view(3, -1)[:, 7]
    assert 12 == HEADER.unpack(protocol.encode(column)[0])[1]
    y = crossed(column)
    assert [7.0, 1000007.0, 2000007.0] == y.tolist()
    assert ((1,), 0, 12) == (y.stride(), y.storage_offset(), y.untyped_storage().nbytes())
    # A row that is contiguous already still has the whole storage behind it.
    assert 40 == HEADER.unpack(protocol.encode(torch.zeros(100, 10)[50])[0])[1]


@pytest.mark.parametrize("views", [False, True])
def test_a_meta_tensor_crosses_without_bytes(views):
    """Only shape, strides and dtype cross, however large the tensor is."""
    x = torch.empty(10**6, 10**6, dtype=torch.bfloat16, device="meta").T
    y = crossed(x, views=views)
    assert (x.shape, x.stride(), x.dtype, "meta") == (y.shape, y.stride(), y.dtype, y.device.type)
    assert 0 == HEADER.unpack(protocol.encode(x, views=views)[0])[1]


@pytest.mark.parametrize("views", [False, True])
def test_conjugated_and_negated_views_cross_with_the_values_they_show(views):
    """torch stores a conjugate as a flag on the old numbers; the frame has the real values."""
    z = torch.tensor([1 + 2j, 3 - 4j])
    got = crossed([z.conj(), z.conj().imag, z], views=views)
    assert [[1 - 2j, 3 + 4j], [-2.0, 4.0], [1 + 2j, 3 - 4j]] == [y.tolist() for y in got]


# --- numpy ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["<f8", ">f4", "f2", "<i8", ">i2", "u1", "u2", "?", "<c16"])
@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (3,), (2, 3)], ids=str)
def test_an_array_of_every_dtype_and_shape_crosses(dtype, shape):
    """The byte order is kept too."""
    x = np.arange(math.prod(shape)).reshape(shape).astype(dtype)
    y = crossed(x)
    assert (np.ndarray, x.dtype, x.shape, x.tolist()) == (type(y), y.dtype, y.shape, y.tolist())


def test_arrays_that_are_no_plain_row_cross_by_value(tmp_path):
    """They arrive as arrays with their own memory, also if methods of their class fail."""
    np.arange(6, dtype=np.uint16).tofile(tmp_path / "tokens.bin")
    x, square = np.memmap(tmp_path / "tokens.bin", dtype=np.uint16, mode="r"), np.array([[1, 2]])
    given = [x, x[::-1], x.reshape(2, 3).T, square.view(np.matrix), square.view(LIARS[np.ndarray])]
    got = crossed(given)
    assert [np.ndarray] * 5 == [type(y) for y in got]
    rows = [0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0], [[0, 3], [1, 4], [2, 5]], [[1, 2]], [[1, 2]]
    assert [*rows] == [y.tolist() for y in got]


# --- values of related types ----------------------------------------------------------------------


class Colour(enum.IntEnum):
    """An int with a name."""

    RED = 1


class Liar:
    """A class whose subclasses give wrong information about themselves."""

    __iter__ = __len__ = __getitem__ = __str__ = __repr__ = __int__ = lambda self, *others: 1 / 0
    __index__ = __float__ = __bool__ = __eq__ = __buffer__ = __iter__
    __hash__ = None
    items = keys = copy = detach = view = __iter__


LIARS = {
    kind: type(f"Lying {kind.__name__}", (Liar, kind), {})
    for kind in (int, float, str, bytes, list, tuple, dict, np.ndarray)
}


class FunctionLiar(torch.Tensor):
    """A tensor for which every torch function returns True."""

    detach = as_subclass = shape = dtype = None

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return True


class TorchLiar(torch.Tensor):
    """A tensor for which every operator returns a number."""

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        return 5


class Broken(Mapping):
    """A mapping that cannot be read."""

    def __iter__(self):
        yield "a"

    __getitem__ = __len__ = lambda self, *key: 1 / 0


class Endless(Broken):
    """A mapping without a last key."""

    def __iter__(self):
        return itertools.count()

    def __getitem__(self, key):
        return key


Point = namedtuple("Point", "x y")
GENEROUS = [
    (np.float64(0.1), 0.1),
    (np.float32(0.1), 0.10000000149011612),
    (np.float16(0.1), 0.0999755859375),
    (np.float64("nan"), math.nan),
    (np.longdouble(0.5), 0.5),
    (np.int64(-5), -5),
    (np.uint64(2**64 - 1), 2**64 - 1),
    (np.bool_(True), True),
    (np.str_("a"), "a"),
    (np.bytes_(b"a"), b"a"),
    (Colour.RED, 1),
    (Point(1, np.int8(2)), (1, 2)),
    (torch.Size([2, 3]), (2, 3)),
    (OrderedDict(a=1, b=np.float32(2)), {"a": 1, "b": 2.0}),
    (defaultdict(list, a=[1]), {"a": [1]}),
    (Counter("aab"), {"a": 2, "b": 1}),
    (MappingProxyType({"a": 1}), {"a": 1}),
    (UserDict({"a": (1,)}), {"a": (1,)}),
    (ChainMap({"a": 1}, {"b": 2}), {"b": 2, "a": 1}),
    ({np.int64(1): "a", Point(1, 2): "b"}, {1: "a", (1, 2): "b"}),
    *((LIARS[type(it)](it), it) for it in (3, 2.5, "a", b"ab", [1, 2], (1, 2), {"a": 1})),
]


@pytest.mark.parametrize(
    ("value", "plain"), GENEROUS, ids=[type(value).__name__ for value, _ in GENEROUS]
)
def test_a_value_of_a_related_type_crosses_as_the_plain_value_it_stands_for(value, plain):
    """With exactly its type, alone and inside containers. No method of a subclass is called."""
    assert same(plain, crossed(value))
    assert same([(plain,)], crossed([(value,)]))


@pytest.mark.parametrize("views", [False, True])
def test_a_tensor_of_a_subclass_crosses_as_a_tensor(views):
    """The tensor's real values cross, whatever its own functions return, also on "meta"."""
    x = torch.arange(6.0).view(2, 3)
    quiet = lambda t: torch.nn.Parameter(t.as_subclass(Quiet))  # noqa: E731
    for kind in (torch.nn.Parameter, torch.nn.Buffer, FunctionLiar, quiet):
        got = crossed(kind(x), views=views)
        assert (torch.Tensor, False, x.tolist()) == (type(got), got.requires_grad, got.tolist())
    assert "meta" == crossed(torch.nn.Parameter(x.to("meta")).as_subclass(Quiet)).device.type


class Quiet(torch.Tensor):
    """A tensor subclass that changes nothing."""


def test_a_mapping_without_an_end_is_read_to_the_largest_dict():
    """The mapping is then reported as a dict with too many keys, like any other."""
    assert Other("a dict with too many keys") == crossed(Endless())


# --- what cannot cross ----------------------------------------------------------------------------

# Values that only look like a number or a tensor, or cannot be read.
NO_PLAIN_DATA = [
    (object(), "object"),
    ({1}, "set"),
    (1j, "complex"),
    (len, "builtin_function_or_method"),
    (bytearray(b"x"), "bytearray"),
    (Path("x"), f"{type(Path()).__module__}.{type(Path()).__qualname__}"),
    (np.complex64(1j), "numpy.complex64"),
    (np.datetime64("2026-01-01"), "numpy.datetime64"),
    (np.longdouble(1) / 3, "numpy.longdouble"),
    (TorchLiar(torch.zeros(1)), f"{__name__}.TorchLiar"),
    (Broken(), f"{__name__}.Broken"),
    (torch.zeros(1).to_sparse(), "a torch.sparse_coo tensor of torch.float32"),
    (np.array(["a"]), "numpy array of <U1"),
    (np.array([object()]), "numpy array of object"),
    (np.zeros(2, dtype=[("a", "i4")]), "numpy array of [('a', '<i4')]"),
    (torch.quint8, "torch.quint8"),
    (2**8192, "int of 8193 bits"),
    (-(2**9000), "int of 9001 bits"),
    (dict.fromkeys(range(2000)), "a dict with too many keys"),
    ([0] * 100_000, DEEP),
]
# What crosses as a plain value; the student's code would fail on it.
RELATED = [
    (np.int64(1), "numpy.int64"),
    (np.float64(1), "numpy.float64"),
    (Colour.RED, f"{__name__}.Colour"),
    (OrderedDict(a=1), "collections.OrderedDict"),
    (torch.zeros(2).as_subclass(Quiet), f"{__name__}.Quiet"),
    (torch.nn.Buffer(torch.zeros(1)).to_sparse(), "a torch.sparse_coo tensor of torch.float32"),
]


@pytest.mark.parametrize(("value", "name"), NO_PLAIN_DATA, ids=[n[:30] for _, n in NO_PLAIN_DATA])
def test_a_value_that_is_no_plain_data_crosses_as_the_name_of_its_type(value, name):
    assert [Other(name), 1] == crossed([value, 1])


@pytest.mark.parametrize(
    ("value", "kind"), NO_PLAIN_DATA + RELATED, ids=[n[:30] for _, n in NO_PLAIN_DATA + RELATED]
)
def test_what_a_test_sends_is_plain_already_or_refused(value, kind):
    where = re.escape("[1]['args'][0]")
    with pytest.raises(ProtocolError, match=rf"^{where} is {re.escape(kind)}$"):
        protocol.encode([0, {"args": (value,)}], strict=True)


def test_a_key_is_refused_as_one():
    """A refused key is reported as a key; a refused top-level value has no path."""
    with pytest.raises(ProtocolError, match=r"^\['a'\]\['a key'\] is numpy\.int64$"):
        protocol.encode({"a": {np.int64(1): 1}}, strict=True)
    with pytest.raises(ProtocolError, match=r"^it is object$"):
        protocol.encode(object(), strict=True)


def test_the_name_of_a_type_is_text_and_is_cut():
    """It can have any length, and the sender chose it."""
    long = type("x" * 1000, (), {"__module__": "m"})
    assert Other("m." + "x" * 198) == crossed(long())
    assert Other("x" * 200) == decoded({"other": "x" * 5000})
    assert Other("{'a': 1}") == decoded({"other": {"a": 1}})


def test_nesting_has_an_end():
    """24 nested lists cross; a deeper value is described. So is a list that holds itself."""
    value, endless = 1, []
    for _ in range(24):
        value = [value]
    assert value == crossed(value)
    endless += [endless, endless]
    for deeper in (crossed([value]), crossed(endless)):
        for _ in range(24):
            deeper = deeper[0]
        assert Other(DEEP) == deeper


def test_the_number_of_parts_has_an_end():
    """A list of 99,999 numbers crosses; a description takes the place of a longer one."""
    assert [0] * 99_999 == crossed([0] * 99_999)
    assert [1, Other(DEEP)] == crossed([1, [0] * 99_998])
    assert Other(DEEP) == crossed(dict.fromkeys(range(1000), [0] * 98))[999]
    assert 100_000 == len(decoded({"list": [0] * 100_000}))
    refused({"list": [0] * 100_001})


def test_the_number_of_keys_has_an_end():
    """Keys with colliding hashes would make a dict take quadratic time."""
    fits = dict.fromkeys(range(512), 0)
    assert [fits, fits] == crossed([fits, fits])
    too_many = Other("a dict with too many keys")
    assert [fits, fits, too_many] == crossed([fits, fits, {"one": "more"}])
    refused({"pairs": [[k * (2**61 - 1), 0] for k in range(100_000)]})
    refused({"dict": dict.fromkeys(map(str, range(1025)), 0)})


def test_a_head_or_body_that_is_too_large_is_not_sent():
    """The sender gets an error before anything is written."""
    with pytest.raises(ProtocolError, match=r"^a value of 2097154 bytes is too large for a frame$"):
        protocol.encode("x" * 2**21)
    size, head, body = map(len, protocol.encode(torch.zeros(250)))
    most = protocol.memory_of(head, body)
    assert [size, head, body] == [*map(len, protocol.encode(torch.zeros(250), most_bytes=most))]
    with pytest.raises(ProtocolError, match=r"^a value of \d+ bytes is too large for a frame$"):
        protocol.encode(torch.zeros(251), most_bytes=most)


# --- frames on a socket ---------------------------------------------------------------------------


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_a_frame_is_read_byte_by_byte(pair):
    """A stream may be cut anywhere, and no byte of the next frame is consumed."""
    ours, theirs = pair
    value = {"x": torch.arange(5), "empty": torch.empty(0), "b": b"abc"}
    data = b"".join(bytes(part) for part in protocol.encode(value))
    reader = protocol.FrameReader()
    for i, byte in enumerate(data):
        theirs.send(bytes([byte]))
        assert reader.read_from(ours) is (i == len(data) - 1)
    got = reader.value()
    assert [[0, 1, 2, 3, 4], [], b"abc"] == [got["x"].tolist(), got["empty"].tolist(), got["b"]]


@pytest.mark.parametrize("spaces", range(17))
def test_a_body_is_aligned_after_a_head_of_any_length(pair, spaces):
    """torch would crash with complex numbers elsewhere."""
    ours, theirs = pair
    head = json.dumps({"tensor": [Z, 16, 2]}).encode() + b" " * spaces
    theirs.send(frame(head, bytes(48)))
    got = protocol.receive(ours)
    assert got.data_ptr() % protocol.ALIGNMENT == 0
    assert (got + torch.ones(2, dtype=got.dtype)).tolist() == [1, 1]


def test_frames_follow_one_another(pair):
    ours, theirs = pair
    for value in ["a", b"body", ["c", (1,)]]:
        protocol.send(theirs, value)
    assert ["a", b"body", ["c", (1,)]] == [protocol.receive(ours) for _ in range(3)]


def test_a_frame_of_many_buffers_is_written_piece_by_piece(pair):
    """A socket that does not block takes what fits; the rest stays in the list."""
    ours, theirs = pair
    theirs.setblocking(False)
    parts = [bytes([i % 256]) * (5000 * (i % 3)) for i in range(300)]
    waiting, received = list(parts), bytearray()
    blocked = 0
    while waiting:
        try:
            protocol.write(theirs, waiting)
        except BlockingIOError:
            blocked += 1
            assert waiting
            received += ours.recv(7777)
    theirs.close()
    while more := ours.recv(2**20):
        received += more
    assert blocked > 1
    assert received == b"".join(parts)


@pytest.mark.parametrize("length", [0, 1, 11, 12, 20, 28])
def test_a_frame_that_ends_early_is_no_frame(pair, length):
    ours, theirs = pair
    data = b"".join(bytes(part) for part in protocol.encode(b"xyz"))
    assert 29 < len(data)
    theirs.send(data[:length])
    theirs.close()
    with pytest.raises(EOFError):
        protocol.receive(ours)


@pytest.mark.parametrize(("head", "body"), [(2**21 + 1, 0), (0, 2**29 + 1), (2**32 - 1, 2**64 - 1)])
def test_a_huge_claim_is_refused_before_anything_is_allocated(pair, head, body):
    """The header alone decides, while the other side keeps its connection open."""
    ours, theirs = pair
    theirs.send(HEADER.pack(head, body))
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match=rf"^a frame claims {head} \+ {body} bytes;"):
            protocol.receive(ours)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


# --- hostile heads --------------------------------------------------------------------------------

HOSTILE = {
    "unknown tag": {"pickle": "x"},
    "tag of a method": {"storage": 0},
    "tag with underscores": {"_dict__": 0},
    "no tag": {},
    "two tags": {"list": [], "tuple": []},
    "bare list": [1],
    "list of a number": {"list": 1},
    "list of an object": {"list": {"a": 1}},
    "dict of a list": {"dict": []},
    "dict of pairs": {"dict": [["a", 1]]},
    "dict of nothing": {"dict": None},
    "dict of a bare list": {"dict": {"a": [1]}},
    "pairs of triples": {"pairs": [[1, 2, 3]]},
    "pairs of numbers": {"pairs": [1]},
    "pairs of a dict": {"pairs": {"a": 1}},
    "pairs with a list as key": {"pairs": [[{"list": []}, 1]]},
    "pairs with a dict as key": {"pairs": [[{"dict": {}}, 1]]},
    "unknown dtype": {"dtype": "quint8"},
    "dtype of a list": {"dtype": []},
    "bytes of half a place": {"bytes": [0]},
    "bytes of two places": {"bytes": [0, 1, 2]},
    "bytes past the end": {"bytes": [0, 17]},
    "bytes past the end by their start": {"bytes": [16, 1]},
    "tensor of too few parts": {"tensor": [F]},
    "tensor of an unknown dtype": {"tensor": [99, 0, 1]},
    "tensor past its end": {"tensor": [F, 0, 5]},
    "tensor past its end by its place": {"tensor": [F, 4, 4]},
    "tensor past its end by a byte": {"tensor": [D, 1, 2]},
    "tensor at the end": {"tensor": [F, 16, 1]},
    "tensor that is not aligned": {"tensor": [F, 8, 1]},
    "view that is not aligned": {"view": [F, 0, 8, 8, 1, 1]},
    "bytes that are not aligned": {"bytes": [8, 1]},
    "tensor without elements": {"tensor": [F, 0, 0]},
    "tensor of two negative sizes": {"tensor": [F, 0, -2, -2]},
    "tensor of elements past every integer": {"tensor": [F, 0, 2**61, 2**61]},
    "tensor of 16 bytes modulo 2**64": {"tensor": [D, 0, 2**61 + 2]},
    "tensor of 16 bytes modulo 2**64, in two sizes": {"tensor": [D, 0, 2, 2**60 + 1]},
    "nothing at an offset past every place": {"view": [F, 2**61, 0, 16, 0, 1]},
    "nothing with strides past every place": {"view": [F, 0, 0, 16, 0, 3, 2**61, 7]},
    "nothing of sizes past every integer": {"view": [F, 0, 0, 16, 0, 2**61, 2**61, 0, 0, 0]},
    "nothing in a storage of no bytes, far away": {"view": [F, 2**60, 0, 0, 0, 1]},
    "meta of bytes past every integer": {"view": [D, 0, torch_codec.NOWHERE, 0, 2**61, 1]},
    "meta of strides past every integer": {"view": [F, 0, torch_codec.NOWHERE, 0, 2, 2**61]},
    "meta at a place that is a float": {"view": [F, 0, -1.0, 0, 2, 1]},
    "array of nothing, of sizes past every integer": {"array": ["<f4", [0, 2**62], 0, 0]},
    "array of fewer bytes than it shows": {"array": ["<f4", [4], 0, 12]},
    "array of 65 dimensions": {"array": ["<f4", [1] * 65, 0, 4]},
    "tensor of sizes without an end": {"tensor": [F, 0, *[10**9] * 100_000]},
    "view of too few parts": {"view": [F, 0, 0]},
    "view of an unknown dtype": {"view": [99, 0, 0, 16, 1, 1]},
    "array of a negative size": {"array": ["<f4", [-1], 0, 16]},
    "view past its end": {"view": [F, 0, 0, 16, 5, 1]},
    "view past its end by its offset": {"view": [F, 1, 0, 16, 4, 1]},
    "view past its end by its stride": {"view": [F, 0, 0, 16, 2, 4]},
    "view past its end by a byte": {"view": [D, 0, 0, 7, 1, 1]},
    "view of a storage past the end": {"view": [F, 0, 8, 16, 1, 1]},
    "scalar past its end": {"view": [F, 4, 0, 16]},
    "scalar of an empty storage": {"view": [F, 0, 16, 0]},
    "fewer strides than sizes": {"view": [F, 0, 0, 16, 2, 2, 1]},
    "elements past every integer": {"view": [F, 0, 0, 16, 2**61, 2**61, 0, 0]},
    "view of bytes past every integer": {"view": [Z, 0, 0, 16, 2**61, 0]},
    "65 dimensions": {"view": [F, 0, 0, 16, *[1] * 130]},
    "meta of too many elements": {"view": [F, 0, torch_codec.NOWHERE, 0, 2**61, 2**61, 1, 1]},
    "array of objects": {"array": ["|O", [2], 0, 16]},
    "array of text": {"array": ["<U1", [4], 0, 16]},
    "array of records": {"array": ["i4,i4", [2], 0, 16]},
    "array of no dtype": {"array": [4, [4], 0, 16]},
    "array of an impossible dtype": {"array": ["<f1", [16], 0, 16]},
    "array of another size": {"array": ["<f4", [5], 0, 16]},
    "array of a part of an element": {"array": ["<f8", [1], 0, 7]},
    "array of sizes past every integer": {"array": ["<f4", [2**61, 2**61], 0, 16]},
    "array past the end": {"array": ["<f4", [4], 4, 16]},
}


@pytest.mark.parametrize("tree", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_head_is_refused(tree):
    """The body has 16 bytes. Values are tried alone and in a list."""
    for head in (tree, {"list": [1, tree]}):
        refused(head, bytes(16), r"\w+")


# What is read of a body of 16 bytes, and which of its parts are numbers.
RIGHT = [
    ("bytes", [0, 16], (0, 1)),
    ("tensor", [F, 0, 2, 2], (0, 1, 2, 3)),
    ("view", [F, 0, 0, 16, 2, 2, 2, 1], (0, 1, 3, 4, 5, 6, 7)),
    ("view", [F, 0, torch_codec.NOWHERE, 0, 2, 1], (0, 1, 4, 5)),
    ("array", ["<f4", [4], 0, 16], (0, 1, 2, 3)),
]
WRONG = [-1, -(2**63), True, False, 0.5, 1.0, "0", "float32", None, [0], {}, 2**70]


@pytest.mark.parametrize(("kind", "right", "places"), RIGHT)
def test_what_is_no_size_or_place_is_refused_wherever_it_is(kind, right, places):
    assert decoded({kind: right}, bytes(16)) is not None
    for place in places:
        for wrong in WRONG:
            refused({kind: [*right[:place], wrong, *right[place + 1 :]]}, bytes(16), r"\w+")


def test_storages_may_overlap_but_never_grow():
    """A second claim about the same place cannot reach further than the first."""
    first = {"tensor": [F, 0, 2]}
    inside, beyond = ({"view": [F, 0, 0, 16, n, 1]} for n in (2, 4))
    assert [(2,), (2,)] == [x.shape for x in decoded({"list": [first, inside]}, bytes(16))]
    refused({"list": [first, beyond]}, bytes(16))


NO_HEADS = [
    b"", b"{", b"\xff\xfe\x00", b"\x00" * 50, b"[]", b"{}", b"1 x", b'{"value": 1}', b"9" * 5000,
    b"[" * 2_000_000, b'{"list":[' * 200_000 + b"]}" * 200_000, b'{"list":[' * 30 + b"]}" * 30,
    b'{"dict":{"a":' * 30 + b"1" + b"}}" * 30, b'{"other":[' * 30_000 + b"1" + b"]}" * 30_000,
]  # fmt: skip


@pytest.mark.parametrize("head", NO_HEADS, ids=lambda head: f"{head[:24]!r}… {len(head)}")
def test_a_head_that_is_no_frame_is_refused(head):
    with pytest.raises(ProtocolError, match=r"^not a frame: \w+$"):
        protocol.decode(head, memoryview(bytearray()))


def test_bytes_that_are_named_often_are_not_copied_without_end():
    """A small frame could otherwise take all memory of the grader."""
    body = bytes(range(32))
    tree = {"list": [{"bytes": [0, 16]}, {"bytes": [0, 16]}]}
    assert [body[:16]] * 2 == decoded(tree, body)
    refused({"list": [*tree["list"], {"bytes": [0, 1]}]}, body)


SHOWN = {
    "one": {"view": [F, 0, 0, 16, 25, 0]},
    "many tensors": {"list": [{"tensor": [F, 0, 1]}] * 25},
    "many views": {"tuple": [{"view": [F, 3, 0, 16, 1, 1]}] * 25},
    "many arrays": {"list": [{"array": ["<f4", [1], 0, 4]}] * 25},
    "all kinds": {
        "dict": {
            "tensor": {"tensor": [F, 0, 4]},
            "views": {"list": [{"view": [F, 0, 0, 16, 5, 0]}] * 4},
            "array": {"array": ["|u1", [4], 0, 4]},
        }
    },
}


@pytest.mark.parametrize("tree", SHOWN.values(), ids=SHOWN)
def test_a_frame_shows_no_more_than_its_reader_allows(tree):
    """Bytes that are shown often would take memory when a test copies what it got."""
    head, body = json.dumps(tree).encode(), memoryview(bytearray(16))
    assert protocol.decode(head, body, 100) is not None
    with pytest.raises(ProtocolError, match=r"^its tensors and arrays show 100 bytes; the answers"):
        protocol.decode(head, body, 99)


@pytest.mark.parametrize("views", [False, True])
def test_a_sender_counts_what_is_shown_often_too(views):
    """So who returns one tensor many times reads that it is too large, as of a large one."""
    x = torch.zeros(250)
    head = protocol.encode([x] * 4, views=views)[1]
    most = protocol.memory_of(len(head), 4 * 1000)
    assert protocol.encode([x] * 4, views=views, most_bytes=most)
    with pytest.raises(ProtocolError, match=r"^a value of \d+ bytes is too large for a frame$"):
        protocol.encode([x] * 4, views=views, most_bytes=most - 1)


def test_what_a_frame_shows_is_what_its_reader_counts(pair):
    """A child's answers are charged by it: copies of them take as much."""
    ours, theirs = pair
    head = json.dumps(SHOWN["one"]).encode()
    theirs.send(frame(head, bytes(16)))
    reader = protocol.FrameReader()
    while not reader.read_from(ours):
        pass
    assert reader.value().numel() == 25
    assert protocol.memory_of(len(head), 100) == reader.kept_bytes


HEADS = {
    "empty lists": b'{"list":[' + b'{"list":[]},' * 20_000 + b"0]}",
    "floats": b'{"list":[' + b"1e9," * 25_000 + b"0]}",
    "text of four bytes": b'"' + b"x" * 250_000 + "😀".encode() + b'"',
    "objects of another format": b"[" + b'{"":0},' * 70_000 + b"0]",
    "lists of another format": b"[" + b"[]," * 75_000 + b"0]",
}


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_a_head_takes_as_much_memory_as_is_counted_for_it(head):
    """A value takes what `memory_of` says; reading the JSON takes at most five times as much."""
    tracemalloc.start()
    try:
        with suppress(ProtocolError):
            value = protocol.decode(head, memoryview(b""))
            assert value
            assert tracemalloc.get_traced_memory()[0] <= protocol.memory_of(len(head), 0)
        assert tracemalloc.get_traced_memory()[1] < 5 * protocol.memory_of(len(head), 0)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("offset", [0, 27])
def test_a_tensor_without_elements_may_be_anywhere_near(offset):
    """It reaches no memory, and torch itself makes such a view behind the end of its storage."""
    assert 27 == torch.zeros(4, 6)[4:, 3:].storage_offset()
    x = decoded({"view": [F, offset, 0, 0, 0, 3, 2**31, 7]})
    assert ((0, 3), offset, 0) == (tuple(x.shape), x.storage_offset(), x.sum().item())


def test_a_tensor_that_has_left_a_transform_crosses():
    """torch.func.grad leaves a wrapper around a tensor that a function kept."""
    kept = []

    def loss(x):
        kept.append(x * 2)
        return (x * x).sum()

    torch.func.grad(loss)(torch.ones(3))
    (got,) = crossed(kept)
    assert torch.equal(got, torch.full((3,), 2.0))
