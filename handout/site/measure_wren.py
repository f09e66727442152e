"""`python -m handout.site.measure_wren`: measure a micro-batch, and fill the handout's column.

On a CPU, bytes and FLOPs of the whole model are counted: its tensors have shapes but no memory.
Times need a GPU. The results are in handout/measured.json, and from there in the table of §13.4.
"""

# torch annotates its modes and `backward` only in part.
# mypy: disable-error-code="no-untyped-call"

import json
import re
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from grader.solutions.reference import gpu
from grader.solutions.reference.activation_checkpointing import checkpoint, saved_activation_bytes
from grader.solutions.reference.flop_counting import FlopCounter, TransformerConfig
from handout.site import wren

RECORD = Path(__file__).parents[1] / "measured.json"
PAGE = RECORD.with_name("13_overlap.md")
COMMAND = "python -m handout.site.measure_wren"


class FFN(nn.Module):
    """Two matrices, or three with a gate."""

    def __init__(self, d: int, d_ff: int, gated: bool) -> None:
        super().__init__()
        self.gate = nn.Linear(d, d_ff, bias=False) if gated else None
        self.up, self.down = nn.Linear(d, d_ff, bias=False), nn.Linear(d_ff, d, bias=False)

    def forward(self, x: Tensor) -> Any:
        """Through the wide features and back."""
        if self.gate is None:
            return self.down(F.gelu(self.up(x)))
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    """A layer with pre-norms, and with one matrix for q, k and v or three."""

    def __init__(self, sizes: TransformerConfig, projections: int, fused_attention: bool) -> None:
        super().__init__()
        d, d_ff = sizes.d_model, sizes.d_ff
        self.sizes, self.fused_attention = sizes, fused_attention
        self.norms = nn.ModuleList(nn.LayerNorm(d, bias=False) for _ in range(2))
        self.widths = [sizes.query_width, sizes.kv_width, sizes.kv_width]
        outputs = [sum(self.widths)] if projections == 1 else self.widths
        self.qkv = nn.ModuleList(nn.Linear(d, width, bias=False) for width in outputs)
        self.out = nn.Linear(sizes.query_width, d, bias=False)
        ffns = sizes.experts + sizes.shared_experts
        self.ffns = nn.ModuleList(FFN(d, d_ff, sizes.gated_ffn) for _ in range(ffns))
        self.router = nn.Linear(d, sizes.experts, bias=False) if sizes.experts > 1 else None

    def attention(self, x: Tensor) -> Any:
        """Causal attention, fused or by hand."""
        normed = self.norms[0](x)
        if len(self.qkv) == 1:
            parts = self.qkv[0](normed).split(self.widths, dim=-1)
        else:
            parts = [linear(normed) for linear in self.qkv]
        width = self.sizes.query_width // self.sizes.num_heads
        q, k, v = (part.unflatten(-1, (-1, width)).transpose(1, 2) for part in parts)
        if self.fused_attention:
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        else:
            mixed = torch.softmax(q @ k.transpose(-1, -2), -1) @ v
        return self.out(mixed.transpose(1, 2).flatten(-2))

    def forward(self, x: Tensor) -> Any:
        """The residual stream after the layer."""
        x = x + self.attention(x)
        normed = self.norms[1](x)
        return x + (self.ffns[0](normed) if self.router is None else self._experts(normed))

    def _experts(self, normed: Tensor) -> Tensor:
        assert self.router is not None
        rows = normed.flatten(0, 1)
        weights, chosen = self.router(rows).softmax(-1).topk(self.sizes.active_experts)
        mixed = torch.zeros_like(rows)
        for number, expert in enumerate(self.ffns):
            if number < self.sizes.experts:
                at, choice = (chosen == number).nonzero(as_tuple=True)
                result = weights[at, choice, None] * expert(rows[at])
                mixed = mixed.index_put((at,), result.to(mixed.dtype), accumulate=True)
            else:
                mixed = mixed + expert(rows)
        return mixed.view_as(normed)


class Model(nn.Module):
    """A language model, whose layers may be in segments with the reference's `checkpoint`."""

    def __init__(self, sizes: TransformerConfig, projections: int = 1, segments: int = 0) -> None:
        super().__init__()
        self.embedding = nn.Embedding(sizes.vocab_size, sizes.d_model)
        self.blocks = nn.ModuleList(
            Block(sizes, projections, fused_attention=True) for _ in range(sizes.num_layers)
        )
        self.norm = nn.LayerNorm(sizes.d_model, bias=False)
        self.layers_of_a_segment = segments and -(-sizes.num_layers // segments)

    def forward(self, tokens: Tensor) -> Any:
        """The logits."""
        x = self.embedding(tokens)
        if each := self.layers_of_a_segment:
            for start in range(0, len(self.blocks), each):
                x = checkpoint(nn.Sequential(*self.blocks[start : start + each]), x)
        else:
            x = nn.Sequential(*self.blocks)(x)
        return F.linear(self.norm(x), self.embedding.weight)


class Live(TorchDispatchMode):
    """Counts the bytes of all storages that are alive after each operation."""

    def __init__(self, tensors: Any) -> None:
        super().__init__()
        self.storages: dict[int, tuple[StorageWeakRef, int]] = {}
        self.peak = 0
        self._follow(tensors)

    def _follow(self, values: Any) -> None:
        for value in tree_leaves(values):
            if isinstance(value, Tensor):
                storage = value.untyped_storage()
                self.storages.setdefault(
                    storage._cdata, (StorageWeakRef(storage), storage.nbytes())
                )

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operation, and count."""
        result = func(*args, **(kwargs or {}))
        self._follow((args, kwargs, result))
        alive = {key: of for key, of in self.storages.items() if not of[0].expired()}
        self.storages, self.peak = alive, max(self.peak, sum(size for _, size in alive.values()))
        return result


def a_micro_batch(
    model: Model, sizes: TransformerConfig, sequences: int, device: str = "cpu"
) -> Callable[[], Tensor]:
    """The loss of random tokens, as a function. Float32 weights are cast by autocast."""
    shape = (sequences, sizes.context_length)
    tokens, targets = (torch.randint(sizes.vocab_size, shape, device=device) for _ in range(2))
    autocast = model.embedding.weight.dtype == torch.float32

    def loss() -> Tensor:
        with torch.autocast(device, torch.bfloat16) if autocast else nullcontext():
            return F.cross_entropy(model(tokens).flatten(0, 1).float(), targets.flatten())

    return loss


def on_a_cpu(sizes: TransformerConfig, sequences: int) -> dict[str, float]:
    """FLOPs, bytes kept for the backward pass, and bytes at the peak with AdamW's moments."""
    with FakeTensorMode():
        model = Model(sizes)
        loss, weights = a_micro_batch(model, sizes, sequences), list(model.parameters())
        for weight in weights:  # those of the first micro-batch
            weight.grad = torch.zeros_like(weight)
        kept = saved_activation_bytes(loss, exclude=weights)
        with Live([weights, [weight.grad for weight in weights]]) as live, FlopCounter() as counter:
            loss().backward()
        moments = 2 * sum(weight.nbytes for weight in weights)
        attention = sum(n for name, n in counter.by_op.items() if "attention" in name)
    products = counter.total - attention
    return {"products": products, "attention": attention, "kept": kept, "peak": live.peak + moments}


def on_a_gpu(sizes: TransformerConfig, sequences: int) -> dict[str, float]:
    """Milliseconds of a micro-batch and of AdamW's step, and bytes at the peak."""
    model = Model(sizes).to("cuda")
    loss = a_micro_batch(model, sizes, sequences, "cuda")
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    loss().backward()
    optimizer.step()
    peak = gpu.peak_memory(lambda: loss().backward())
    return {
        "gpu_peak": peak.allocated_before + peak.peak_above_before,
        "micro_batch_ms": 1e3 * gpu.time_kernel(lambda: loss().backward()),
        "adamw_ms": 1e3 * gpu.time_kernel(optimizer.step),
    }


# How the table shows each result.
SHOWN: dict[str, Callable[[float], str]] = {
    "products": lambda flops: f"{flops / 1e13:.2f}e13",
    "attention": lambda flops: f"{flops / 1e12:.2f}e12",
    "kept": lambda size: f"{size / 1e9:.2f}",
    "peak": lambda size: f"{size / 1e9:.2f}",
    "gpu_peak": lambda size: f"{size / 1e9:.2f}",
    "micro_batch_ms": lambda ms: f"{ms:.0f}",
    "adamw_ms": lambda ms: f"{ms:.1f}",
}


def cells(record: Mapping[str, float]) -> dict[str, str]:
    """The column "measured": a cell by the id of its figure."""
    return {
        f"measured_{name}": shown(record[name]) if name in record else "not measured yet"
        for name, shown in SHOWN.items()
    }


def filled(page: str, record: Mapping[str, float]) -> str:
    """The page with these results."""
    for name, text in cells(record).items():
        page = re.sub(rf"\[[^\]]*\](?=\{{#{name}\}})", f"[{text}]", page)
    return page


def main() -> None:
    """Measure what this machine can measure; what it cannot stays as it was."""
    record = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    record |= on_a_cpu(wren.WREN, wren.MICRO_BATCH)
    if torch.cuda.is_available():
        record |= {"gpu": torch.cuda.get_device_name()} | on_a_gpu(wren.WREN, wren.MICRO_BATCH)
    RECORD.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(filled(page, record), encoding="utf-8")
    print("\n".join(f"{name}: {text}" for name, text in cells(record).items()))


if __name__ == "__main__":
    main()
