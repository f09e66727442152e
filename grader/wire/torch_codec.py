"""How torch's values cross between the grader and the sandbox; see protocol.py."""

import ctypes

import torch
from torch import Tensor

from grader.wire.protocol import (
    CONVERSIONS,
    MAX_ELEMENTS,
    READERS,
    WRITERS,
    Decoder,
    Encoder,
    Tree,
    elements,
    index,
)

DTYPES: dict[str, torch.dtype] = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in [
        torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn,
        torch.float8_e5m2, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8,
        torch.uint16, torch.uint32, torch.uint64, torch.bool, torch.complex64, torch.complex128,
    ]
}  # fmt: skip
DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}
DTYPE_OF_NUMBER = tuple(DTYPES.values())
NUMBER_OF_DTYPE = {dtype: number for number, dtype in enumerate(DTYPE_OF_NUMBER)}
NOWHERE = -1  # the place of a storage on the meta device, which has no bytes
# ctypes would make a type for each size, which is slow.
ANY_MEMORY = ctypes.c_char * (2**62)


def teach() -> None:
    """Teach the codec tensors, dtypes and sizes."""
    WRITERS.update(dict.fromkeys([Tensor, torch.nn.Parameter], write_tensor))
    WRITERS.update({torch.Size: WRITERS[tuple], torch.dtype: write_dtype})
    READERS.update(dtype=read_dtype, tensor=read_tensor, view=read_view)
    CONVERSIONS.append((Tensor, _plain_tensor))


def write_dtype(encoder: Encoder, value: torch.dtype, depth: int) -> Tree:
    """The tree of a dtype."""
    return {"dtype": DTYPE_NAMES[value]} if value in DTYPE_NAMES else encoder.other(str(value))


def write_tensor(encoder: Encoder, value: Tensor, depth: int) -> Tree:
    """The tree of a tensor."""
    x = value.detach()  # also unwraps a tensor that has left torch.func.grad
    number = NUMBER_OF_DTYPE.get(x.dtype)  # none of a quantized tensor
    if number is None or x.layout is not torch.strided:
        return encoder.other(f"a {x.layout} tensor of {x.dtype}")
    if x.is_meta:
        return {"view": [number, x.storage_offset(), NOWHERE, 0, *x.shape, *x.stride()]}
    if not x.is_cpu or x.is_conj() or x.is_neg():
        x = x.resolve_conj().resolve_neg().cpu()
    storage = x.untyped_storage()
    size, shown = storage.nbytes(), x.nbytes
    encoder.shown += shown
    is_whole = size == shown and x.is_contiguous()
    if not is_whole and not encoder.views:
        x = x.clone(memory_format=torch.contiguous_format)
        storage = x.untyped_storage()
        size, is_whole = storage.nbytes(), True
    start = encoder.storages.get(storage._cdata)
    if start is None:
        start = encoder.storages[storage._cdata] = encoder.blob(_memory_of(storage, size))
        # The stride of a dimension of size 1 may be anything.
        if is_whole and size and not (encoder.views and 1 in x.shape):
            return {"tensor": [number, start, *x.shape]}
    return {"view": [number, x.storage_offset(), start, size, *x.shape, *x.stride()]}


def _memory_of(storage: torch.UntypedStorage, size: int) -> memoryview:
    """The bytes of a storage, not copied; the result keeps the storage alive."""
    # The way through a numpy array takes ten times as long.
    data = ANY_MEMORY.from_address(storage.data_ptr())
    data.storage = storage  # type: ignore[attr-defined]
    return memoryview(data)[:size]


def read_dtype(decoder: Decoder, content: Tree, depth: int) -> torch.dtype:
    """The dtype of a tree."""
    return DTYPES[content]


def read_tensor(decoder: Decoder, content: Tree, depth: int) -> Tensor:
    """The tensor of a tree, which shows all of its storage in order."""
    number, start, *shape = content
    dtype = DTYPE_OF_NUMBER[index(number)]
    data = decoder.blob(start, elements(shape) * dtype.itemsize)
    decoder.show(len(data))
    x = torch.frombuffer(data, dtype=dtype)  # which refuses an empty buffer
    decoder.storages[start] = x.untyped_storage()
    return x.resize_(shape)


def read_view(decoder: Decoder, content: Tree, depth: int) -> Tensor:
    """The tensor of a tree with an offset and strides."""
    number, offset, start, size, *rest = content
    dims = len(rest) // 2
    shape, stride = rest[:dims], rest[dims:]
    dtype = DTYPE_OF_NUMBER[index(number)]
    count = elements(shape)
    reached = _reached(count, offset, shape, stride)
    if start == NOWHERE and type(start) is int:
        return torch.empty_strided(shape, stride, dtype=dtype, device="meta")
    storage = _storage(decoder, start, size)
    if reached * dtype.itemsize > storage.nbytes():
        raise ValueError("a tensor reaches outside its storage")
    decoder.show(count * dtype.itemsize)
    return torch.empty(0, dtype=dtype).set_(storage, offset, shape, stride)


def _reached(count: int, offset: Tree, shape: list[int], stride: list[Tree]) -> int:
    """How many elements of its storage a tensor with this number of elements reaches."""
    end = index(offset)
    last = end
    for n, step in zip(shape, stride, strict=True):
        end += (n or 1) * index(step)
        last += (n - 1) * step
    if end > MAX_ELEMENTS:
        raise ValueError("strides of a tensor that cannot exist")
    return last + 1 if count else 0


def _storage(decoder: Decoder, start: Tree, size: Tree) -> torch.UntypedStorage:
    """The storage at this place of the body, made once, so that its views share it here too."""
    data = decoder.blob(start, size)
    if not data:  # the next storage is at the same place
        return torch.empty(0, dtype=torch.uint8).untyped_storage()
    storage: torch.UntypedStorage | None = decoder.storages.get(start)
    if storage is None:
        storage = torch.frombuffer(data, dtype=torch.uint8).untyped_storage()
        decoder.storages[start] = storage
    return storage


def _plain_tensor(value: Tensor) -> Tensor:
    with torch._C.DisableTorchFunctionSubclass():
        return Tensor.as_subclass(Tensor.detach(value), Tensor)
