"""The chick: a decoder-only transformer of a few million parameters that reads bytes."""

import codecs
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from flight.parts import Parts
from flight.training_text import VOCABULARY


@dataclass(frozen=True)
class Size:
    """The sizes of a model, with what flop_counting.TransformerConfig has."""

    num_layers: int
    d_model: int
    num_heads: int
    context_length: int
    batch: int  # sequences of one step
    steps: int  # of a flight
    vocab_size: int = VOCABULARY
    gated_ffn: bool = False
    tied_embeddings: bool = True
    kv_heads: int | None = None
    head_width: int | None = None
    experts: int = 1
    active_experts: int = 1
    shared_experts: int = 0

    @property
    def query_width(self) -> int:
        """Features of a token's queries."""
        return self.d_model

    kv_width = query_width

    @property
    def d_ff(self) -> int:
        """Features inside the feed-forward network."""
        return 4 * self.d_model

    @property
    def tokens(self) -> int:
        """Tokens of one step."""
        return self.batch * self.context_length


TEMPERATURE = 0.7  # of the words that it writes
SIZES = {
    # Layers, features, heads, context, batch and steps.
    "hatchling": Size(5, 128, 4, 128, 4, 5000),
    "chick": Size(8, 320, 5, 256, 8, 300),
    "wren": Size(24, 2048, 16, 1024, 8, 10, vocab_size=32_000),
    "egg": Size(5, 128, 4, 128, 16, 300),
}


class Block(nn.Module):
    """Attention and a feed-forward network, each after a norm and added to the residual stream."""

    def __init__(self, size: Size, parts: Parts) -> None:
        super().__init__()
        d = size.d_model
        self.heads, self.parts = size.num_heads, parts
        self.norms = nn.ModuleList(nn.LayerNorm(d, bias=False) for _ in range(2))
        self.q, self.k, self.v, self.out = (parts.Linear(d, d) for _ in range(4))
        self.up, self.down = parts.Linear(d, size.d_ff), parts.Linear(size.d_ff, d)

    def forward(self, x: Tensor) -> Tensor:
        """The residual stream after this layer: (batch, tokens, features)."""
        normed = self.norms[0](x)
        q, k, v = self.q(normed), self.k(normed), self.v(normed)
        x = x + self.out(self.parts.attention(q, k, v, self.heads))
        wide: Tensor = F.gelu(self.up(self.norms[1](x)))
        after: Tensor = x + self.down(wide)
        return after


class Chick(nn.Module):
    """Embeddings, layers, a norm, and logits by the embedding's own matrix."""

    def __init__(self, size: Size, parts: Parts, segments: int = 0) -> None:
        super().__init__()
        self.size = size
        self.embedding = nn.Embedding(size.vocab_size, size.d_model)
        self.position = nn.Embedding(size.context_length, size.d_model)
        for table in (self.embedding, self.position):
            nn.init.normal_(table.weight, std=0.02)
        self.layers = parts.layers([Block(size, parts) for _ in range(size.num_layers)], segments)
        self.norm = nn.LayerNorm(size.d_model, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits (batch, tokens, vocabulary) of the token after each token."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.layers(self.embedding(tokens) + self.position(places))
        return F.linear(self.norm(x), self.embedding.weight)


@torch.no_grad()
def write(model: Chick, prompt: str, length: int) -> Iterator[str]:
    """A prompt, and then so many bytes that the model writes, one after the other."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    yield prompt
    device: Any = next(model.parameters()).device
    drawn_by = torch.Generator().manual_seed(0)
    tokens = list(prompt.encode())
    for _ in range(length):
        seen = torch.tensor([tokens[-model.size.context_length :]], device=device)
        shares = (model(seen)[0, -1].float() / TEMPERATURE).softmax(-1).cpu()
        tokens.append(int(torch.multinomial(shares, 1, generator=drawn_by)))
        yield decoder.decode(bytes(tokens[-1:]))
