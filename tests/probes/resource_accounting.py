"""Probes for resource_accounting.py.

Devices, recipes and configurations are objects, so they are created in the student's process.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypedDict


@dataclass(frozen=True)
class TransformerConfig:
    """A model's sizes, with the fields and properties of flop_counting.TransformerConfig."""

    vocab_size: int
    context_length: int
    num_layers: int
    d_model: int
    num_heads: int
    d_ff: int
    gated_ffn: bool = False
    tied_embeddings: bool = False
    kv_heads: int | None = None
    head_width: int | None = None
    experts: int = 1
    active_experts: int = 1
    shared_experts: int = 0

    @property
    def query_width(self) -> int:
        """Features of a token's queries."""
        return self.num_heads * (self.head_width or self.d_model // self.num_heads)

    @property
    def kv_width(self) -> int:
        """Features of a token's keys, and of its values."""
        return self.query_width // self.num_heads * (self.kv_heads or self.num_heads)


def with_hardware(
    student: Any,
    *,
    function: str,
    hardware: dict[str, Any],
    before: Sequence[Any] = (),
    after: Sequence[Any] = (),
) -> Any:
    """Call a function with these arguments before and after a Hardware with these fields."""
    module = student.resource_accounting
    return getattr(module, function)(*before, module.Hardware(**hardware), *after)


def with_recipe(
    student: Any,
    *,
    function: str,
    recipe: dict[str, Any],
    before: Sequence[Any] = (),
    after: Sequence[Any] = (),
) -> Any:
    """Call a function with these arguments before and after a TrainingRecipe with these fields."""
    module = student.resource_accounting
    return getattr(module, function)(*before, module.TrainingRecipe(**recipe), *after)


def transformer_parameters(student: Any, *, config: dict[str, Any]) -> Any:
    """transformer_parameters of a configuration with these fields."""
    return student.resource_accounting.transformer_parameters(TransformerConfig(**config))


class Chosen(TypedDict):
    """What cheapest_cluster returned: the number of the offer, and of its devices."""

    offer: Any
    devices: Any


def cheapest_cluster(
    student: Any,
    *,
    before: Sequence[Any],
    recipe: dict[str, Any],
    after: Sequence[Any],
    offers: Sequence[dict[str, Any]],
) -> Chosen | Any:
    """Call cheapest_cluster; an offer is returned as its number.

    Whatever is not a pair is returned unchanged.

    Args:
        recipe: The fields of a TrainingRecipe.
        offers: The fields of each Offer, whose `hw` has the fields of a Hardware.
    """
    module = student.resource_accounting
    made = [module.Offer(**{**fields, "hw": module.Hardware(**fields["hw"])}) for fields in offers]
    got = module.cheapest_cluster(*before, module.TrainingRecipe(**recipe), *after, made)
    if not isinstance(got, (tuple, list)) or len(got) != 2:
        return got
    numbers = [number for number, offer in enumerate(made) if offer == got[0]]
    return {"offer": numbers[0] if numbers else "not one of the offers", "devices": got[1]}
