"""Answer or raise something that is hard to read, to compare or to show.

group: lie about types
target: tensor_memory
status: failed
"""

import os
import random
import sys

import torch
from torch import nn


# %% answers_of_another_dtype
"""Returns the right result in a dtype that a test of gradients cannot compute with.

target: einops
reference: before
earns: less
tests: gradients | slice
holds: an answer with which a test cannot compute is wrong; it is no fault of the grader.
"""
def _as_float8(function):
    def answer(*args, **kwargs):
        return function(*args, **kwargs).to(torch.float8_e4m3fn)

    return answer

for _name in ("per_head_linear", "split_heads", "merge_heads", "attention_scores", "masked_mean"):
    globals()[_name] = _as_float8(globals()[_name])


# %% endless_values
"""Returns values without an end: cyclic, nested a thousand deep, as large as memory, an integer of a million digits.

tests: view_shows | storage_bytes | views_once
status: failed, crashed, memory
holds: the depth, length and size of a value are limited, and exceeding a limit costs only the student.
"""
cycle = []
cycle.append(cycle)
deep = []
for _ in range(100_000):
    deep = [deep]

class Endless(list):
    def __iter__(self):
        return iter(int, 1)

def tensor_bytes(x):
    return (cycle, {"a": cycle}, deep)[x.dim() % 3]

def storage_bytes(x):
    return [0] * 400_000

def unique_bytes(tensors):
    return [1 << 3_000_000, Endless(), iter(int, 1), float("inf")]


# %% int_that_no_float_can_hold
"""Returns an int that no float can hold.

target: lr_schedule
holds: an answer that a test cannot convert is wrong; it is no fault of the grader.
"""
def lr_cosine_schedule(*args, **kwargs):
    return 10**2000


# %% lying_objects
"""Returns an int, an object and a tensor that equal everything and claim to have any type.

holds: an int or a tensor of a subclass arrives as its plain value; what is no plain data, as the name of its type.
"""
class Any(int):
    __hash__ = int.__hash__
    __eq__ = lambda self, other: True
    __ne__ = lambda self, other: False
    __repr__ = lambda self: "4"

class Right:
    __class__ = property(lambda self: int)
    __hash__ = lambda self: 0
    __eq__ = lambda self, *other: True
    __ne__ = lambda self, other: False
    __reduce__ = lambda self: (exec, ("raise SystemExit",))
    __sub__ = __rsub__ = __abs__ = __index__ = __int__ = __float__ = lambda self, *other: 0
    __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __contains__ = __eq__

class Liar(torch.Tensor):
    shape = property(lambda self: (1, 1))
    dtype = property(lambda self: torch.float32)

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return torch.tensor(True)

    __torch_dispatch__ = __torch_function__

liar = torch.zeros(1).as_subclass(Liar)

def tensor_bytes(x):
    return Any(-1) if x.dim() % 2 else liar

def storage_bytes(x):
    return Right()

def unique_bytes(tensors):
    return [liar, torch.nn.Parameter(liar), {Any(-1): Any(-1)}]


# %% nan_everywhere
"""Makes every weight and every output NaN, in the hope that NaN compares equal to NaN.

target: linear
tests: linear_registers | linear_multiplies | counts_elements
earns: less
holds: a NaN never matches an expected value; registering a weight is worth what it is.
"""
nan = float("nan")

class Linear(nn.Module):
    def __init__(self, in_features, out_features, device=None, dtype=None):
        super().__init__()
        weight = torch.full((out_features, in_features), nan, dtype=torch.complex64)
        self.weight, self.more = nn.Parameter(weight), nn.Parameter(weight)

    def forward(self, x):
        return torch.full((*x.shape[:-1], self.weight.shape[0]), nan)

class MLP(Linear):
    def __init__(self, dims, device=None, dtype=None):
        super().__init__(3, 3)

def count_parameters(module, trainable_only=False):
    return nan


# %% views_of_nothing
"""Returns tensors without ordinary storage: meta, sparse, nested, expanded, conjugated, resized.

target: storage_views
status: failed, crashed
holds: each of them is sent as its values or as the name of its type.
"""
x = torch.zeros(2, 2)
ODD = [
    torch.empty(2**40, device="meta"), x.to_sparse(), torch.zeros(1).expand(2**33), x.to_mkldnn(),
    torch.zeros(1, dtype=torch.complex64).conj().imag, torch.empty(0, 2**40),
    torch.zeros(3, names=("n",)), torch.nested.nested_tensor([torch.zeros(2)]),
    torch.zeros((), dtype=torch.float8_e5m2),
]
small = torch.zeros(64)
small.untyped_storage().resize_(0)

def sliding_windows(x, size, step):
    return random.choice([*ODD, small])

def shares_storage(*args):
    return random.choice(ODD)

element_offset = contiguous_strides = view_strides = shares_storage


# %% endless_traceback
"""Prints the start of a traceback that never ends, and kills itself.

group: attack the reader
target: linear
tests: linear_multiplies
status: crashed
holds: the search for the line that crashed takes less than quadratic time in the length of the output.
"""
print("Fatal Python error" + 'File "' * 170_000, end="", flush=True)
os.kill(os.getpid(), 15)


# %% escapes_in_a_message
"""Raises an exception whose text, type name and location contain terminal escapes, HTML and template markup.

group: attack the reader
tests: counts_what_a_view_shows | is_the_whole_storage
holds: control characters are escaped, and markup is shown as text.
"""
EVIL = (
    "\x1b[2J\x1b]0;owned\x07\x1b]52;c;ZWNobyBvd25lZA==\x07\r\x08\x9b31m"
    "\u202egnp.exe\u2066\u200b\ufeff\ud800\x00<script>alert(1)</script>"
    "<img src=x onerror=alert(1)>]]>&amp;{{ 7*7 }}{% raw %}[/red]"
    "[link=file:///etc/passwd]x[/link]=cmd|'/c calc'!A1"
)

def tensor_bytes(x):
    raise type(EVIL.replace("\0", "").replace("\ud800", ""), (Exception,), {})(EVIL)

def storage_bytes(x):
    error = KeyError(EVIL)
    error.add_note(EVIL)
    raise error

source = "def unique_bytes(tensors):\n    raise ValueError('x')\n"
exec(compile(source, "/tmp/submission/assignment/\x1b[2J\u202e.py", "exec"))
unique_bytes.__code__ = unique_bytes.__code__.replace(co_name=EVIL[:9], co_qualname=EVIL[:9])


# %% lines_of_a_report
"""Raises an error whose text imitates further lines of the report.

group: attack the reader
target: linear
tests: linear_multiplies | counts_elements
holds: a student's text stays on the line of its message.
"""
class Linear:
    def __init__(self, *args, **kwargs):
        place, rule = "grader/check.py:1 in passed", "Every test has passed."
        raise KeyError(f"no\n  at        {place}\n  rule      {rule}")

MLP = Linear

def count_parameters(*args, **kwargs):
    Linear()


# %% message_of_100_megabytes
"""Raises a chain of exceptions whose message is a hundred megabytes of lines.

group: attack the reader
tests: what_a_view_shows
status: failed, memory
holds: a message has a maximum length, and the worker cuts it.
"""
def tensor_bytes(x):
    try:
        raise ValueError("passed\n" * 15_000_000)
    except ValueError as e:
        raise LookupError(str(e) + "!") from e

storage_bytes = unique_bytes = tensor_bytes


# %% text_that_hangs
"""Raises an exception whose __str__ never returns.

group: attack the reader
limits: wall_seconds=1
tests: storage_bytes
status: timeout
holds: the text is computed in the worker, so the deadline applies to it.
"""
class Endless(Exception):
    def __str__(self):
        while True:
            pass

def storage_bytes(x):
    raise Endless


# %% text_that_raises
"""Raises exceptions whose text, type, traceback or base classes raise, exit or lie when inspected.

group: attack the reader
status: failed, crashed
holds: the worker describes the exception or dies; the grader never inspects it.
"""
class Meta(type):
    __name__ = property(lambda cls: sys.exit(0))
    __mro__ = property(lambda cls: 1 / 0)
    __module__ = "builtins"

class Evil(Exception, metaclass=Meta):
    errno = [1]

    def __str__(self):
        raise KeyboardInterrupt

    __repr__ = __str__
    __traceback__ = property(lambda self: sys.exit(0))

def tensor_bytes(x):
    raise Evil

def storage_bytes(x):
    raise type("Quiet", (Exception,), {"__str__": lambda self: 5, "errno": {}})

def unique_bytes(tensors):
    raise BaseExceptionGroup("\x1b[2J", [SystemExit(0), KeyboardInterrupt()])
