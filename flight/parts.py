"""The parts of the flight: the student's where their problem is done, and given ones elsewhere."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from flight import given_parts

# What the flight takes from each problem, and from which module.
OF_PROBLEM: dict[str, tuple[str, list[str]]] = {
    "linear": ("linear", ["Linear"]),
    "einops": ("einops_reshaping", ["split_heads", "attention_scores", "merge_heads"]),
    "adamw": ("optimizers", ["AdamW"]),
    "gradient_clipping": ("optimizers", ["clip_gradient_norm"]),
    "get_batch": ("data", ["open_tokens", "get_batch"]),
    "checkpoint": ("checkpointing", ["save_checkpoint"]),
    "training_loop": ("training", ["train"]),
    "activation_checkpointing": (
        "activation_checkpointing",
        ["saved_activation_bytes", "CheckpointedSequential"],
    ),
    "flop_counter": ("flop_counting", ["FlopCounter"]),
    "flop_formulas": ("flop_counting", ["transformer_forward_flops"]),
    "optimizers": ("optimizers", ["optimizer_state_bytes"]),
    "roofline": ("resource_accounting", ["roofline_seconds"]),
    "napkin_math": ("resource_accounting", ["bytes_per_parameter", "transformer_parameters"]),
}
# Without these the flight goes on, but leaves out what they would predict or measure.
LEFT_OUT = (
    *("activation_checkpointing", "flop_counter", "flop_formulas", "optimizers"),
    *("roofline", "napkin_math"),
)


@dataclass
class Parts:
    """The functions and classes that the flight uses, by name.

    Attributes:
        own: The problems whose parts are the student's.
        failing: Those of them whose public tests fail.
    """

    own: list[str]
    _found: dict[str, Any] = field(default_factory=dict)
    failing: list[str] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        """The part of this name.

        Raises:
            AttributeError: There is none, because its problem is not done.
        """
        if name.startswith("_") or name not in self._found:
            raise AttributeError(name)
        return self._found[name]

    def has(self, problem: str) -> bool:
        """Whether this problem's part is the student's."""
        return problem in self.own

    def attention(self, q: Tensor, k: Tensor, v: Tensor, heads: int) -> Tensor:
        """Causal attention of features that belong to all heads."""
        if not self.has("einops"):
            return given_parts.attention(q, k, v, heads)
        q, k, v = (self.split_heads(part, heads) for part in (q, k, v))
        scores = self.attention_scores(q, k)
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        weights = scores.masked_fill(later, -torch.inf).softmax(-1)
        mixed: Tensor = self.merge_heads(weights @ v)
        return mixed

    def layers(self, blocks: list[nn.Module], segments: int) -> nn.Module:
        """The blocks one after the other, in so many checkpointed segments."""
        if segments:
            checkpointed: nn.Module = self.CheckpointedSequential(blocks, segments)
            return checkpointed
        return nn.Sequential(*blocks)


def load(own: list[str], failing: Sequence[str] = ()) -> Parts:
    """The student's parts for these problems, and given ones for the others."""
    found: dict[str, Callable[..., Any]] = {
        "Linear": given_parts.linear,
        "AdamW": torch.optim.AdamW,
        "clip_gradient_norm": nn.utils.clip_grad_norm_,
        "open_tokens": given_parts.open_tokens,
        "get_batch": given_parts.get_batch,
        "save_checkpoint": given_parts.save_checkpoint,
    }
    for problem in own:
        module, names = OF_PROBLEM[problem]
        found |= {name: getattr(import_module(f"assignment.{module}"), name) for name in names}
    return Parts(own, found, list(failing))
