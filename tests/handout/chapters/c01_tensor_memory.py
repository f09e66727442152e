"""Chapter 1: bytes of tensors and storages, strides and views."""

import io
import itertools
import math

import torch

from grader.solutions.reference import tensor_memory as tm
from handout.site import wren
from tests.handout.chapters.c05_resource_accounting import GPT3
from tests.handout.page_figures import Figures, n

FP32, BF16 = torch.float32, torch.bfloat16
X = torch.arange(12).view(3, 4)


def taken(*shape, dtype=FP32):
    """The bytes of a tensor of this shape, computed without allocating the tensor."""
    return tm.tensor_bytes(torch.empty(shape, dtype=dtype, device="meta"))


def saved(tensor):
    file = io.BytesIO()
    torch.save(tensor, file)
    return file.tell()


def address_holds():
    """Check the page's first formula for each element of a window."""
    x = torch.arange(120, dtype=torch.int16)[7:107].view(10, 10)[2:, 1::3]
    start = x.untyped_storage().data_ptr()
    for i, j in itertools.product(*map(range, x.shape)):
        place = x.storage_offset() + i * x.stride()[0] + j * x.stride()[1]
        yield x[i, j].data_ptr() == start + place * x.element_size()


class Chapter(Figures):
    def beginning(self) -> None:
        position = r"\text{offset} + i \cdot \text{stride}[0] + j \cdot \text{stride}[1]"
        formula = rf"\text{{position}} &= {position}"
        self.formula("element_position", formula, list(address_holds()))

    def bytes(self) -> None:
        every_float8 = ", ".join(name for name in dir(torch) if name.startswith("float8_"))
        rows = ["float64, int64, complex64", "float16, bfloat16, int16", "float32, int32"]
        rows.append(f"{every_float8}, int8, uint8, bool")
        for names in rows:
            (size,) = {getattr(torch, name).itemsize for name in names.split(", ")}
            self.gives(itemsize_row=f"{names.replace(every_float8, 'every float8')} | {n(size)}")
        packed = "float4_e2m1fn_x2"  # older versions of torch do not have it
        assert getattr(torch, packed, torch.uint8).itemsize == 1
        self.gives(packed_dtype=f"`{n(packed)}`")

        x = torch.zeros(1000, 1000)
        self.gives(bet_shape=(x.shape[0], x.shape[1]), bet_row_kb=tm.tensor_bytes(x[0]) / 1e3)
        self.gives(bet_file_mb=saved(x[0]) / 1e6)
        # Lample (2017), PyTorch's issue 1995; the others are 8109, 33101, 40157, 53419 and 104523.
        assert saved(torch.zeros(10**6)[:10]) > 10**6 * FP32.itemsize
        self.gives(report_year=2017, report_size=n("100 million"), report_last_year=2023)

        embedding = torch.empty(50257, 768, device="meta")
        both = [embedding, embedding.detach()]
        tied = sum(map(tm.tensor_bytes, both)) - tm.unique_bytes(both)
        self.gives(tied_matrix=(50257, 768), tied_mb=tied / 1e6)
        matrix = GPT3.d_model, GPT3.d_ff
        size = taken(*matrix)
        self.gives(ffn_elements=(matrix, math.prod(matrix)), ffn_bytes=size, ffn_gb=size / 1e9)
        self.gives(ffn_gib=size / 2**30, gb=10**9)
        kept = 4  # the matrix, its gradient and two moments
        self.gives(trained_gb=kept * size / 1e9, ffn_matrices=2 * GPT3.num_layers)
        logits = torch.empty(8, 1024, 50257, device="meta")
        whole, shown = tm.storage_bytes(logits[:, -1]), tm.tensor_bytes(logits[:, -1])
        assert whole == tm.tensor_bytes(logits)
        self.gives(logit_sequences=8, logit_tokens=1024, logit_vocabulary=50257)
        self.gives(logits_gb=whole / 1e9, last_logits=n("logits[:, -1]"))
        self.gives(last_logits_mb=shown / 1e6)
        nothing = torch.empty(2, device="meta"), torch.empty(0)
        (address,) = {x.untyped_storage().data_ptr() for x in nothing}
        assert X.untyped_storage() is X.T.untyped_storage()
        self.gives(no_address=address, seen_ffn_gb=2.3)
        half = taken(*matrix, dtype=BF16)
        self.gives(seen_ffn_bf16_gb=1.15, ffn_bf16_gb=half / 1e9, ffn_bf16_gib=half / 2**30)
        vocabulary, width = 50257, 1024  # of the model with 204M parameters in those notes
        self.gives(seen_model=204, seen_tied_mb=207)
        self.gives(tied_spelled=(vocabulary, width, FP32.itemsize))
        self.gives(other_tied_mb=taken(vocabulary, width) / 1e6)

    def views(self) -> None:
        shape = 3, 4, 5
        strides = tm.contiguous_strides(shape)
        self.gives(last_stride=strides[-1], shape=shape, strides=strides, row_step=strides[1])
        self.gives(rows_passed=strides[0] // strides[1])
        side = 4096
        x = torch.empty(side, side)
        once = tm.unique_bytes([x, x.T])
        self.gives(bet_square=(side, side), bet_once_mb=once / 1e6)
        self.gives(bet_twice_mb=tm.unique_bytes([x, x.T, x.T.reshape(-1)]) / 1e6)
        self.gives(bet_thrice_mb=3 * once / 1e6)  # an option of the bet, and wrong
        for code in ("x", "x.T", "x[:, 1:3]", "x[1:, ::2]", "x[:1].expand(3, 4)"):
            view = eval(code, {"x": X})
            row = " ".join(map(str, view[0].tolist()))
            cells = (tuple(view.shape), view.stride(), view.storage_offset(), row)
            self.gives(view_row=f"`{n(code)}` | {' | '.join(n(str(cell)) for cell in cells)}")
        self.gives(expanded_stride=X[:1].expand(3, 4).stride()[0])

    def merging(self) -> None:
        cases = itertools.product(((2, 3), (3, 4), (5, 2)), range(13), range(4))
        holds = [
            (tm.view_strides(shape, (outer, inner), (math.prod(shape),)) is not None)
            == (outer == shape[1] * inner)
            for shape, outer, inner in cases
        ]
        rule = r"\text{stride}[d] = \text{shape}[d + 1] \cdot \text{stride}[d + 1]"
        self.formula("merge_rule", rule, holds)
        x = torch.arange(24).view(2, 3, 4)
        a, b, _ = x.stride()
        merged = tm.view_strides(x.shape, x.stride(), (6, 4))
        y = x.permute(2, 1, 0)
        self.gives(merge_shape=x.shape, merge_strides=x.stride())
        self.gives(merge_condition=(a, x.shape[1], b), merged_shape=x.view(6, 4).shape)
        self.gives(merged_strides=merged, reversed_shape=y.shape, transposed_strides=y.stride())
        self.gives(transposed_first=y.stride()[0])
        self.gives(transposed_first_need=(y.shape[1], y.stride()[1]))
        self.gives(transposed_second=y.stride()[1])
        self.gives(transposed_second_need=(y.shape[2], y.stride()[2]))
        row, one = X[0].expand(3, 4), X[0, :1].expand(3, 4)
        (flat,) = tm.view_strides(one.shape, one.stride(), (12,))
        self.gives(row_length=4, row_shape=row.shape, row_strides=row.stride())
        self.gives(row_outer=row.stride()[0], row_need=(row.shape[1], row.stride()[1]))
        self.gives(one_shape=one.shape, one_strides=one.stride())
        self.gives(one_condition=(one.stride()[0], one.shape[1], one.stride()[1]))
        self.gives(one_elements=one.numel(), one_flat_stride=flat)
        part = X[1:, ::2]
        start, (down, right) = part.storage_offset(), part.stride()
        self.gives(element=n("[1, 1]"), element_view=n("x[1:, ::2]"))
        self.gives(element_offset=(start, 1, down, 1, right, tm.element_offset(part, [1, 1])))

    def windows(self) -> None:
        x = torch.arange(5)
        windows = tm.sliding_windows(x, 3, 2)
        first, second = windows
        self.gives(windowed=x, window_length=windows.shape[1], window_step=windows.stride()[0])
        self.gives(first_window=first, second_window=second, window_elements=windows.numel())
        self.gives(window_storage=tm.storage_elements(windows))

    def model(self) -> None:
        config = wren.WREN
        embedding, ffn = (config.vocab_size, config.d_model), (config.d_model, config.d_ff)
        self.gives(wren_embedding=embedding, wren_embedding_mb=taken(*embedding) / 1e6)
        self.gives(wren_ffn=ffn, wren_ffn_mb=taken(*ffn) / 1e6)
        self.gives(wren_gb=taken(wren.PARAMETERS) / 1e9)

    def exercises(self) -> None:
        x, index = torch.empty(6, 7, 8), (1, 2, 3)
        self.gives(exercise_shape=x.shape, exercise_index=index)
        self.gives(exercise_strides=tm.contiguous_strides(x.shape))
        terms = list(zip(index, x.stride(), strict=True))
        self.gives(exercise_offset=(terms, tm.element_offset(x, index)))
        swapped = x.transpose(0, 1)
        shape, stride = swapped.shape, swapped.stride()
        for target in ((42, 8), (7, 48)):
            assert tm.view_strides(shape, stride, target) is None
        self.gives(swapped_target=(42, 8), other_target=(7, 48), swapped_shape=shape)
        self.gives(swapped_strides=stride)
        self.gives(swapped_need=f"{n(stride[0])} = {n(shape[1])} · {n(stride[1])}")
        self.gives(second_dimension=2)
        self.gives(other_need=f"{n(stride[1])} = {n(shape[2])} · {n(stride[2])}")
        asked = ["x[1:]", "x[:, 1:]", "x[:1].T", "x[:1].expand(3, 4)"]
        contiguous = [code for code in asked if eval(code, {"x": X}).is_contiguous()]
        quoted = [f"`{n(code)}`" for code in asked]
        self.gives(asked_shape=X.shape, asked_views=f"{', '.join(quoted[:-1])} and {quoted[-1]}")
        self.gives(contiguous_views=" and ".join(f"`{n(code)}`" for code in contiguous))
        self.gives(with_gaps=n(asked[1]))
        text = torch.empty(10**9, dtype=torch.int32, device="meta")
        windows = tm.sliding_windows(text, wren.WREN.context_length, 1)
        assert 0.999 < windows.numel() / (wren.WREN.context_length * text.numel()) < 1
        self.gives(window_count=len(windows))
