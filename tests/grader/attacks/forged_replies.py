"""Write replies that the worker itself would not write.

group: lie about types
target: tensor_memory
tests: storage_bytes
status: crashed
"""

import importlib
import itertools
import json
import os
import random
import sys
import types
import typing

import torch

# The codec cannot be imported, but the frame that serves requests has it.
serving = sys._getframe()
while serving.f_code.co_name != "_serve":
    serving = serving.f_back
protocol, channel = serving.f_globals["protocol"], serving.f_locals["channel"]
of_tensors = protocol.READERS["tensor"].__globals__
NUMBER, NOWHERE = of_tensors["NUMBER_OF_DTYPE"], of_tensors["NOWHERE"]


def answer(value):
    """The head of an answer with this value."""
    return json.dumps({"dict": {"id": 1, "value": value}}).encode()

def decoded(head, size, *more):
    """What the reader makes of an answer; the control of an attack."""
    return protocol.decode(head, memoryview(bytearray(size)), *more)["value"]

def framed(head, body=b""):
    return protocol.HEADER.pack(len(head), len(body)) + head + body

def send(frame):
    """Send it all, and exit."""
    while frame:
        frame = frame[os.write(3, frame) :]
    os._exit(0)

def write_tensors(writer):
    """Have a function write each tensor of an answer."""
    protocol.WRITERS[torch.Tensor] = protocol.WRITERS[torch.nn.Parameter] = writer


# %% answer_that_no_request_holds
"""Answers with a value that the test passes on as an input, and that is too large for a request.

group: forge the verdict
target: optimizers
reference: before
tests: goes_on_from_a_state_dict
status: failed
earns: less
holds: a test that cannot send what it was given fails; it is no fault of the grader.
"""
class _Many:
    """What a reply holds and, as it is written anew, no request does."""

def _many(encoder, value, depth):
    return {"list": [{"tensor": [0, encoder.blob(bytes(8)), 1]}] * 76_000}

def _send_more(channel, reply):
    value = reply.get("value")
    asked = sys._getframe(1).f_locals["request"].get("probe")
    if asked == "alone" and type(value) is list and len(value) == 5 and type(value[2]) is list:
        value[2] = _Many()
    _send(channel, reply)

protocol.WRITERS[_Many] = _many
_send = serving.f_globals["_send"]
serving.f_globals["_send"] = _send_more

class SGD:
    """Whatever is wrong."""


# %% parts_that_a_test_does_not_expect
"""Forges replies of the right type whose parts a test does not expect.

group: forge the verdict
target: precision
reference: before
tests: bits | largest | eps | smallest
status: failed, crashed
earns: less
holds: a forged reply is a wrong answer; it is no fault of the grader.
"""
_right = float_spec  # noqa: F821

def float_spec(*args, **kwargs):
    request = serving.f_locals["request"]
    if request["probe"] == "specs":
        asked = next(v for v in request["inputs"].values() if isinstance(v, (list, tuple)))
        value = {"list": [{"dict": {"": ""}}] * len(asked)}
        head = json.dumps({"dict": {"id": request["id"], "value": value}}).encode()
        os.write(3, framed(head))
    return _right(*args, **kwargs)


# %% empty_answers
"""Takes over the worker's loop and answers each probe with the emptiest value of its type.

group: forge the verdict
target: checkpoint
tests: comes_back | goes_on_bit_by_bit | file_like
status: failed, crashed
holds: a test that loops over an answer counts its parts; a solution that answers nothing earns nothing.
"""
def emptiest(kind):
    """A value of this type with as few parts as it may have."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if typing.is_typeddict(kind):
        return {name: emptiest(of) for name, of in typing.get_type_hints(kind).items()}
    if origin is tuple:
        return tuple(map(emptiest, arguments))
    if origin in (typing.Union, types.UnionType):
        return None if type(None) in arguments else emptiest(arguments[0])
    if kind is bool:
        return True
    return (origin or kind)() if isinstance(origin or kind, type) else []

request = serving.f_locals["request"]
while True:
    probe = getattr(importlib.import_module(request["module"]), request["probe"])
    value = emptiest(typing.get_type_hints(probe).get("return", typing.Any))
    protocol.send(channel, {"id": request["id"], "value": value})
    request = protocol.receive(channel)


# %% replies_in_advance
"""Sends a thousand answers before the questions, which also claim a pass.

group: forge the verdict
status: crashed, failed
holds: an answer counts only for the question whose id it carries, and carries no verdict.
"""
claim = {"status": "passed", "value": {"status": "passed", "score": 4.0}}
for number in range(1000):
    os.write(3, b"".join(protocol.encode({"id": number, **claim})))


# %% odd_answers_everywhere
"""Answers each tensor with a value that is allowed, but hard to compute with, to compare or to print.

target: autograd
reference: before
tests: matmul_of
status: failed, crashed
earns: less
holds: whatever a look at an answer raises is a wrong answer in one test; it does not end the grade.
"""
D, HALF, BYTE = (NUMBER[getattr(torch, n)] for n in ("float64", "float16", "float8_e4m3fn"))
Z, LONG, BOOL = (NUMBER[getattr(torch, n)] for n in ("complex128", "uint64", "bool"))
ODD = [
    lambda at: {"view": [BYTE, 0, at, 16, *[6] * 8, *[0] * 8]},  # a million entries to print
    lambda at: {"tensor": [BYTE, at, 64]},  # NaN
    lambda at: {"tensor": [HALF, at, 32]},
    lambda at: {"tensor": [Z, at, 2, 2]},
    lambda at: {"tensor": [LONG, at, 8]},
    lambda at: {"tensor": [BOOL, at, 64]},  # bytes that are neither 0 nor 1
    lambda at: {"view": [D, 0, at, 64, *[1] * 64, *[0] * 64]},
    lambda at: {"view": [D, 5, at, 64, 2**40, 0, 1, 1]},
    lambda at: {"view": [D, 0, NOWHERE, 0, 2**29, 2**29, 2**29, 1]},
    lambda at: {"array": ["<f16", [4], at, 64]},  # no long double has these bits
    lambda at: {"array": [">c16", [0, 2**58], at, 0]},
    lambda at: {"pairs": [[{"view": [BYTE, 0, at, 16, *[6] * 8, *[0] * 8]}, 10**4299]]},
    lambda at: {"pairs": [[float("nan"), {"other": "\ud800\x1b[31m"}]]},
    lambda at: {"list": [{"bytes": [at, 64]}, -(10**4298), 1e308, "\ud800"]},
]
turns = itertools.count()

def write(encoder, value, depth):
    """Another value for each tensor, and in each test, because each test has another seed."""
    number = serving.f_locals["request"]["seed"] + next(turns)
    return ODD[number % len(ODD)](encoder.blob(b"\xff\x7f\xf1\x9a" * 16))

write_tensors(write)


# %% sizes_that_overflow
"""Answers with tensors whose sizes, strides or offsets overflow when they are multiplied in 64 bits.

target: autograd
reference: before
tests: backward | matmul
earns: less
holds: every number is checked before torch or NumPy sees it; the grader's memory is not read, and no other problem is affected.
"""
D = NUMBER[torch.float64]
# Each is made for a body of 32 bytes at this place. test_protocol has more of each kind.
LIES = [
    lambda at: {"tensor": [D, at, 2**61 + 4]},  # 2**64 + 32 bytes
    lambda at: {"tensor": [D, at, 2**62, 0]},
    lambda at: {"view": [D, 2**61, at, 32, 0, 1]},
    lambda at: {"view": [D, 0, at, 32, 0, 2**61, 2**61, 1, 1, 1]},
    lambda at: {"view": [D, 0, at, 32, 2, 2**64 - 1]},  # -1 in 64 bits
    lambda at: {"view": [D, 2**70, NOWHERE, 0, 2, 1]},
    lambda at: {"view": [D, 0, -1.0, 0, 2, 1]},
    lambda at: {"array": ["<f8", [4], at, 2**64 + 32]},
    lambda at: {"tensor": [True, at, 8]},
]

def write(encoder, value, depth):
    """The same lie in all answers of a test, and another one in the next test."""
    return LIES[serving.f_locals["request"]["seed"] % len(LIES)](encoder.blob(bytes(32)))

write_tensors(write)


# %% fields_of_another_kind
"""Answers with a dict of the right field names whose values have types that no probe returns.

target: linear
tests: linear_registers | linear_multiplies | counts_elements
holds: a forged field counts as the student's crash, never as a fault of the grader.
"""
names = "args names weights trainable state output weight_gradients x_gradient x all".split()
send(b"".join(protocol.encode({"id": 1, "value": dict.fromkeys(names, 5)})))


# %% shown_many_times
"""Sends a small answer that shows the same megabyte four thousand times, as tensors, views or arrays.

group: exhaust the host
holds: an answer shows no more bytes than it may have, so that a test which copies it needs little memory.
"""
F, SIZE = NUMBER[torch.float32], 2**20
KINDS = [
    {"tensor": [F, 0, SIZE // 4]},
    {"view": [F, 0, 0, SIZE, SIZE // 4, 1]},
    {"view": [F, 3, 0, 16, SIZE // 4, 0]},
    {"array": ["<f4", [SIZE // 4], 0, SIZE]},
]
for kind in KINDS:  # to show them a few times is an answer
    assert len(decoded(answer({"list": [kind] * 16}), SIZE, protocol.MAX_ANSWER_BYTES)) == 16
send(framed(answer({"list": [random.choice(KINDS)] * 4000}), bytes(SIZE)))


# %% unused_bytes_in_every_answer
"""Sends right answers in frames with 300 MiB of bytes that no value uses.

group: exhaust the host
target: einops
reference: before
tests: gives_each_head_its_slice
earns: less
holds: the answers of a test may take 512 MiB in all, and those of a whole problem are not kept.
"""
written = protocol.write
MIB = bytes(2**20)

def padded(socket, buffers):
    head, body = protocol.HEADER.unpack(buffers[0])
    if b'"id"' in bytes(buffers[1]):
        buffers[0] = protocol.HEADER.pack(head, body + 300 * 2**20)
        buffers += [MIB] * 300
    written(socket, buffers)

protocol.write = padded
assert protocol.decode(b"7", memoryview(bytes(100))) == 7


# %% answer_from_a_small_buffer
"""Streams an answer of 511 MiB from a buffer of one, so that only the grader needs memory for it.

group: exhaust the host
tests: what_a_view_shows
holds: the answers of a test have a limit that does not depend on the limits of its process.
"""
SIZE = 511 << 20

def tensor_bytes(x):
    tree = {"id": serving.f_locals["request"]["id"], "value": {"bytes": [0, SIZE]}}
    head = json.dumps({"dict": tree}).encode()
    os.write(3, protocol.HEADER.pack(len(head), SIZE) + head)
    piece = bytes(1 << 20)
    for _ in range(SIZE):
        os.write(3, piece)

storage_bytes = unique_bytes = tensor_bytes
