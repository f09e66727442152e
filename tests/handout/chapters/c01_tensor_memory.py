"""Chapter 1: bytes of tensors and storages, strides and views."""

import math

import torch

from grader.reference import tensor_memory as tm
from tests.handout.chapters.c05_resource_accounting import GPT3
from tests.handout.claims import Claims, n, power, section

FP32, BF16 = torch.float32, torch.bfloat16
X = torch.arange(12).view(3, 4)


def taken(*shape, dtype=FP32):
    """Bytes of a tensor of that shape, without the memory for it."""
    return tm.tensor_bytes(torch.empty(shape, dtype=dtype, device="meta"))


def sizes(values):
    """A shape or strides as a figure, such as (3, 4)."""
    return n(str(tuple(values)))


def numbers(tensor, between=" "):
    """A vector's elements side by side, as a figure."""
    return n(between.join(str(value) for value in tensor.tolist()))


def brackets(tensor):
    """A vector as a figure, such as [0, 1, 2]."""
    return n(str(tensor.tolist()))


def address_holds():
    """The first formula of the page, for windows of every kind on one storage."""
    base = torch.arange(120, dtype=torch.int16)
    windows = [base.view(10, 12), base.view(12, 10).T, base[7:].view(-1)[:100].view(10, 10)[2:, 1::3], base[5:6].expand(4, 5)]
    return [
        x[i, j].data_ptr()
        == x.untyped_storage().data_ptr() + (x.storage_offset() + i * x.stride()[0] + j * x.stride()[1]) * x.element_size()
        and tm.element_offset(x, (i, j)) == x.storage_offset() + i * x.stride()[0] + j * x.stride()[1]
        for x in windows
        for i in range(x.shape[0])
        for j in range(x.shape[1])
    ]


def mergeable():
    """Sizes and strides of two dimensions, and whether torch shows them as one."""
    for stride in range(13):
        for inner in range(4):
            for shape in ((2, 3), (3, 4), (5, 2)):
                x = torch.empty(100).as_strided(shape, (stride, inner))
                try:
                    x.view(-1)
                except RuntimeError:
                    yield shape, (stride, inner), False
                else:
                    yield shape, (stride, inner), True


class Chapter(Claims):
    """Every figure of the page."""

    def __init__(self) -> None:
        super().__init__("01_tensor_memory.md")
        self.formula(
            r"x[i, j] = \text{start of storage} + \left(\text{offset} + i \cdot \text{stride}[0] + j \cdot \text{stride}[1]\right)",
            address_holds(),
        )
        self.bytes()
        self.views()
        self.merging()
        self.windows()

    def bytes(self) -> None:
        """Section 1.1."""
        rows = [
            ("float64, int64, complex64", "float16, bfloat16, int16"),
            ("float32, int32", "float8_e4m3fn, float8_e5m2, int8, uint8, bool"),
        ]
        for row in rows:
            cells = []
            for names in row:
                (size,) = {getattr(torch, name).itemsize for name in names.split(", ")}
                cells.append(f"{names.replace('float8_e4m3fn, float8_e5m2', 'float8 (both kinds)')} | {n(size)}")
            self.says(f"| {' | | '.join(cells)} |")

        embedding = torch.empty(50257, 768, device="meta")
        both = [embedding, embedding.detach()]
        tied = sum(map(tm.tensor_bytes, both)) - tm.unique_bytes(both)
        self.says(
            f"GPT-2 small uses one matrix of {n(50257, ',')} × {n(768)} for its embedding and for its logits, and counting both adds {n(tied / 1e6, '.1f')} MB"
        )
        a, b = 4, 8
        self.says(
            f"A {n(a)} × {n(b)} matrix is {n(a)} · {n(b)} · {n(FP32.itemsize)} = {n(taken(a, b))} bytes in float32 and {n(taken(a, b, dtype=BF16))} in bfloat16."
        )
        assert a * b * FP32.itemsize == taken(a, b)
        matrix = GPT3.d_model, GPT3.d_ff
        size = taken(*matrix)
        elements = f"{n(matrix[0], ',')} · {n(matrix[1], ',')}"
        self.says(
            f"A feed-forward matrix of GPT-3 has {elements} = {n(math.prod(matrix), ',')} elements. In float32 they take {n(size, ',')} bytes, "
            f"which is {n(size / 1e9, '.3f')} GB or {n(size / 2**30, '.2f')} GiB ({n(1)} GB is {power(10, 9)} bytes, {n(1)} GiB is {power(2, 30)})."
        )
        kept = 4  # the matrix, its gradient and two moments
        self.says(f"{n(kept * size / 1e9, '.2f')} GB for one matrix, of which the model has {n(2 * GPT3.num_layers)}.")
        logits = torch.empty(8, 1024, 50257, device="meta")
        whole, shown = tm.storage_bytes(logits[:, -1]), tm.tensor_bytes(logits[:, -1])
        assert whole == tm.tensor_bytes(logits)
        self.says(
            f"Logits of {n(8)} sequences of {n(1024, ',')} tokens over a vocabulary of {n(50257, ',')} take {n(whole / 1e9, '.3f')} GB in float32. "
            f"`{n('logits[:, -1]')}` shows {n(shown / 1e6, '.1f')} MB of them and keeps all of the {n(whole / 1e9, '.3f')} GB."
        )
        self.says(f"- {n(4)} bytes for every dtype.")
        address = torch.empty(2, device="meta").untyped_storage().data_ptr()
        assert address == torch.empty(0).untyped_storage().data_ptr()
        window = X.untyped_storage()
        assert window is X.T.untyped_storage()
        self.says(f"the storage's own address where that is {n(address)}, as for")
        self.says(
            f"| a feed-forward matrix of GPT-3 is {n('2.3')} GB | {elements} · {n(FP32.itemsize)} = {n(size, ',')} bytes: {n(size / 1e9, '.3f')} GB, "
            f"or {n(size / 2**30, '.2f')} GiB |"
        )

    def views(self) -> None:
        """Section 1.2: windows."""
        shape = 3, 4, 5
        strides = tm.contiguous_strides(shape)
        assert strides == torch.empty(shape).stride()
        self.says(
            f"the last dimension steps by {n(strides[-1])}, and each",
            f"Shape {sizes(shape)} has strides {sizes(strides)}: a step in the middle passes one row of {n(strides[1])}, and a step in front passes "
            f"{n(strides[0] // strides[1])} such rows.",
            f"With `{n('x = torch.arange(12).view(3, 4)')}`:",
        )
        for code in ("x", "x.T", "x[:, 1:3]", "x[1:, ::2]", "x[:1].expand(3, 4)"):
            view = eval(code, {"x": X})
            assert tm.shares_storage(view, X)
            self.says(
                f"| `{n(code)}` | {sizes(view.shape)} | {sizes(view.stride())} | {n(view.storage_offset())} | {numbers(view[0])} |"
            )
        self.says(f"Expanding sets a stride to {n(X[:1].expand(3, 4).stride()[0])}: a step")

    def merging(self) -> None:
        """Section 1.2: when a reshape is a view."""
        self.says(f"Take two neighbouring dimensions, d and d + {n(1)}, that", f"stride[d + {n(1)}], the step inside a row")
        cases = list(mergeable())
        assert {merges for *_, merges in cases} == {True, False}
        self.formula(
            r"\text{stride}[d] - (\text{shape}[d + 1] - 1) \cdot \text{stride}[d + 1] = \text{stride}[d + 1]",
            [(stride[0] - (shape[1] - 1) * stride[1] == stride[1]) == merges for shape, stride, merges in cases],
        )
        self.formula(
            r"\text{stride}[d] = \text{shape}[d + 1] \cdot \text{stride}[d + 1]",
            [
                (stride[0] == shape[1] * stride[1])
                == merges
                == (tm.view_strides(shape, stride, (math.prod(shape),)) is not None)
                for shape, stride, merges in cases
            ],
        )
        assert tm.view_strides((2, 1, 3), (3, 77, 1), (6,)) == (1,)
        self.says(f"Dimensions of size {n(1)} never matter", f"([§{section('roofline')}]({n('05')}_resource_accounting.md))")

        x = torch.arange(24).view(2, 3, 4)
        a, b, c = x.stride()
        merged = tm.view_strides(x.shape, x.stride(), (6, 4))
        y = x.permute(2, 1, 0)
        assert merged == x.view(6, 4).stride()
        assert a == x.shape[1] * b
        assert y.stride()[0] != y.shape[1] * y.stride()[1]
        assert y.stride()[1] != y.shape[2] * y.stride()[2]
        assert tm.view_strides(y.shape, y.stride(), (24,)) is None
        self.says(
            f"Shape {sizes(x.shape)} with strides {sizes(x.stride())}. Dimensions {n(0)} and {n(1)} merge, as {n(a)} = {n(x.shape[1])} · {n(b)}, into "
            f"{n(x.shape[0] * x.shape[1])} with stride {n(b)}; so {sizes(x.view(6, 4).shape)} has strides {sizes(merged)}. After a full transpose the strides are "
            f"{sizes(y.stride())}: {n(y.stride()[0])} is not {n(y.shape[1])} · {n(y.stride()[1])} and {n(y.stride()[1])} is not {n(y.shape[2])} · {n(y.stride()[2])}, so"
        )
        assert c == merged[1]
        row, one = X[0].expand(3, 4), X[0, :1].expand(3, 4)
        assert tm.view_strides(row.shape, row.stride(), (12,)) is None
        (flat,) = tm.view_strides(one.shape, one.stride(), (12,))
        assert one.view(12).stride() == (flat,)
        self.says(
            f"A row of {n(4)} that is expanded to {sizes(row.shape)} has strides {sizes(row.stride())}. To be flat it needs a copy, as "
            f"{n(row.stride()[0])} is not {n(row.shape[1])} · {n(row.stride()[1])}. One element that is expanded to {sizes(one.shape)} has strides "
            f"{sizes(one.stride())}, and {n(one.stride()[0])} = {n(one.shape[1])} · {n(one.stride()[1])}: a view of {n(one.numel())} elements with stride {n(flat)}."
        )
        part = X[1:, ::2]
        self.says(
            f"Element {n('[1, 1]')} of `{n('x[1:, ::2]')}` in the table above is number {n(part.storage_offset())} + {n(1)} · {n(part.stride()[0])} + {n(1)} · {n(part.stride()[1])} = "
            f"{n(tm.element_offset(part, [1, 1]))} of the storage."
        )
        assert X.flatten()[tm.element_offset(part, [1, 1])] == part[1, 1]

    def windows(self) -> None:
        """Section 1.2: overlapping windows, and the list of mistakes."""
        text, t = torch.arange(50), 8
        assert len(tm.sliding_windows(text, t, 1)) == len(text) - t + 1
        self.says(f"A text of n tokens has n − t + {n(1)} windows of t tokens at step {n(1)}.")
        self.says(f"([chapter {section('Data')}]({n('09')}_data.md))")
        x = torch.arange(5)
        windows = tm.sliding_windows(x, 3, 2)
        first, second = windows
        self.says(
            f"{brackets(x)} in windows of {n(windows.shape[1])} at step {n(windows.stride()[0])}: {brackets(first)} and {brackets(second)}, "
            f"which show {n(windows.numel())} elements of a storage of {n(tm.storage_elements(windows))}."
        )
        self.says(
            f"The offset forgotten, which is {n(X.storage_offset())} only",
            f"- Stride {n(0)} taken",
            f"A dimension of size {n(1)} that",
        )
