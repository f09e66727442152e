"""Probes for tests of speed: one call of a function, from a nonce to the digest of its output.

They run in the student's process and, for the reference, in a process that never runs a student's
code. The clock is in neither: the test reads it when it sends the nonce and when it has received
the digest.

- The inputs are made here, from the nonce, by a generator of the course. So nobody knows them
  before the clock runs, and they are not sent while it runs.
- The digest covers every bit of the output. It can only be known to somebody who has computed all
  of it, and it cannot be fitted to another output afterwards, because it is cryptographic.
- `kept` returns the output itself, for the calls that the test checks. Code that shares this
  process can change all of this, but not what the test computes from the output that it receives.

`empty` does everything but call the function: its time is not the function's.
"""

import contextlib
import ctypes
import functools
import hashlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from kit import generators
from kit.loaded import is_array, is_scalar, is_tensor

ATOMS = (type(None), bool, int, float, str, bytes)
# ctypes would make a type for each size, which is slow.
ANY_MEMORY = ctypes.c_char * (2**62)


class _Last:
    """The output of the last call."""

    output: Any = None


def timed(
    student: Any,
    *,
    nonce: int,
    function: str,
    inputs: str,
    sizes: dict[str, Any],
    packages: Sequence[str],
    device: str,
) -> bytes:
    """Call a function with the inputs of a nonce, and return the digest of its output.

    Args:
        function: A function of the student, such as "scan.prefix_sums", or one of a module of
            probes, such as "tests.probes.scan:by_torch".
        inputs: The generator of inputs, such as "tests.probes.scan:sequences".
        sizes: Arguments of that generator.
        packages: The names of the packages that the course lists.
        device: "cpu", "cuda" or "stand-in".
    """
    with _on(device) as place:
        made_here = _made(inputs, nonce, place, packages, device, sizes)
        output = _found(student, function)(*made_here)
        _wait(place)
        _Last.output = plain(output)
    return digest_of(_Last.output)


def empty(
    student: Any,
    *,
    nonce: int,
    inputs: str,
    sizes: dict[str, Any],
    packages: Sequence[str],
    device: str,
) -> bytes:
    """Do the same without the call; return the digest of the last output again."""
    with _on(device) as place:
        _made(inputs, nonce, place, packages, device, sizes)
        _wait(place)
    return digest_of(_Last.output)


def kept(student: Any) -> Any:
    """The output whose digest was returned last."""
    return _Last.output


def made(
    student: Any,
    *,
    nonce: int,
    inputs: str,
    sizes: dict[str, Any],
    packages: Sequence[str],
    device: str,
) -> list[Any]:
    """The inputs of a nonce."""
    with _on(device) as place:
        return [plain(x) for x in _made(inputs, nonce, place, packages, device, sizes)]


# --- inputs and functions


@contextlib.contextmanager
def _on(device: str) -> Iterator[str]:
    """Simulate a GPU if asked to; return torch's name of the device."""
    if device != "stand-in":
        yield device
        return
    from kit import stand_in

    with stand_in.gpu(slow="both"):
        yield "cuda"


def _made(
    inputs: str,
    nonce: int,
    place: str,
    packages: Sequence[str],
    device: str,
    sizes: dict[str, Any],
) -> Sequence[Any]:
    if device == "cuda":
        import torch

        rng: Any = torch.Generator(device).manual_seed(nonce)
    else:
        rng = generators.made(nonce, packages)
    found: Sequence[Any] = _found(None, inputs)(rng, place, **sizes)
    return found


def _found(student: Any, name: str) -> Any:
    """A function of the student, or of a module of probes, which this process has imported."""
    module, _, probe = name.rpartition(":")
    if module:
        return getattr(sys.modules[module], probe)
    return functools.reduce(getattr, name.split("."), student)


def _wait(place: str) -> None:
    """Wait for all streams, so that right work on a stream of its own is not read too early."""
    if place == "cuda":
        import torch

        torch.cuda.synchronize()


# --- outputs


def plain(value: Any) -> Any:
    """The same value of plain types, on the CPU.

    Raises:
        TypeError: It is a value of another type.
    """
    if is_tensor(value):
        return _plain_tensor(value)
    if is_array(value):
        import numpy as np

        return np.ascontiguousarray(value).view(np.ndarray).reshape(value.shape)
    if is_scalar(value):
        return value.item()
    if type(value) in (list, tuple):
        return type(value)(map(plain, value))
    if type(value) is dict and all(type(key) is str for key in value):
        return {key: plain(part) for key, part in value.items()}
    if type(value) in ATOMS:
        return value
    raise TypeError(f"a value of type {type(value).__name__} cannot be timed")


def _plain_tensor(value: Any) -> Any:
    """A tensor of torch's own type, whose storage holds its values now, all of them in order."""
    import torch

    with torch._C.DisableTorchFunctionSubclass():
        x = torch.Tensor.detach(value)
        x = torch.Tensor.as_subclass(x, torch.Tensor).cpu().resolve_conj().resolve_neg()
        return x.contiguous()


def digest_of(value: Any) -> bytes:
    """The digest of a value that `plain` returned; another tensor may lie about its memory."""
    digest = hashlib.blake2b(digest_size=32)
    _add(digest, value)
    return digest.digest()


def _add(digest: "hashlib.blake2b", value: Any) -> None:
    """Add a value to a digest. Types and sizes are added as well, so no two values are alike."""
    if is_tensor(value):
        digest.update(f"tensor {value.dtype} {list(value.shape)};".encode())
        if value.numel():
            memory = ANY_MEMORY.from_address(value.data_ptr())
            digest.update(memoryview(memory)[: value.numel() * value.element_size()])
    elif is_array(value):
        digest.update(f"array {value.dtype} {list(value.shape)};".encode())
        digest.update(value.tobytes())
    elif isinstance(value, (list, tuple, dict)):
        digest.update(f"{type(value).__name__} {len(value)};".encode())
        for part in value.items() if isinstance(value, dict) else value:
            _add(digest, part)
    else:
        text = value if isinstance(value, bytes) else repr(value).encode(errors="surrogatepass")
        digest.update(f"{type(value).__name__} {len(text)};".encode() + text)
