"""Probes for resource_accounting.py.

Devices, recipes and configurations are objects, so they are created in the student's process.
"""

from collections import namedtuple
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MappingProxyType, SimpleNamespace
from typing import Any, TypedDict

import torch


@dataclass(frozen=True)
class TransformerConfig:
    """A model's sizes, with the fields of flop_counting.TransformerConfig."""

    vocab_size: int
    context_length: int
    num_layers: int
    d_model: int
    num_heads: int
    d_ff: int
    gated_ffn: bool = False
    tied_embeddings: bool = False


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


def with_hardware_each(
    student: Any,
    *,
    function: str,
    hardware: dict[str, Any],
    befores: Sequence[Sequence[Any]],
    after: Sequence[Any],
) -> list[Any]:
    """Call a function as `with_hardware` does, once for each of these arguments.

    The device's peaks are a mapping that is not a dict and cannot be changed.
    """
    hardware = {**hardware, "peak_flops": MappingProxyType(hardware["peak_flops"])}
    return [
        with_hardware(student, function=function, hardware=hardware, before=before, after=after)
        for before in befores
    ]


def with_each_hardware(
    student: Any,
    *,
    function: str,
    devices: Sequence[tuple[dict[str, Any], Sequence[Any]]],
    befores: Sequence[Sequence[Any]],
) -> list[list[Any]]:
    """The same for each of these devices, with its own arguments after."""
    return [
        with_hardware_each(
            student, function=function, hardware=hardware, befores=befores, after=after
        )
        for hardware, after in devices
    ]


def in_dtypes(
    student: Any, *, function: str, arguments: Sequence[Any], dtypes: Sequence[str]
) -> list[Any]:
    """Call a function with these arguments and each of the dtypes with these names."""
    call = getattr(student.resource_accounting, function)
    return [call(*arguments, getattr(torch, dtype)) for dtype in dtypes]


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


def each_case(
    student: Any,
    *,
    function: str,
    kind: str,
    cases: Sequence[tuple[Sequence[Any], dict[str, Any], Sequence[Any]]],
) -> list[Any]:
    """Call a function for each case: the arguments before, the fields, the arguments after.

    The fields are those of a Hardware or of a TrainingRecipe: `kind` is "hardware" or "recipe".
    """
    kinds: dict[str, Callable[..., Any]] = {"hardware": with_hardware, "recipe": with_recipe}
    return [
        kinds[kind](student, function=function, before=before, after=after, **{kind: fields})
        for before, fields, after in cases
    ]


class _Slots:
    """A configuration that is neither a dataclass nor has a dict."""

    __slots__ = tuple(TransformerConfig.__dataclass_fields__)

    def __init__(self, **fields: Any) -> None:
        for name, value in fields.items():
            setattr(self, name, value)


def transformer_parameters(student: Any, *, config: dict[str, Any], kind: str = "dataclass") -> Any:
    """transformer_parameters of a configuration of this kind with these fields."""
    make: dict[str, Callable[..., Any]] = {
        "dataclass": TransformerConfig,
        "namespace": SimpleNamespace,
        "named tuple": namedtuple("Config", list(config)),
        "slots": _Slots,
    }
    return student.resource_accounting.transformer_parameters(make[kind](**config))


class Chosen(TypedDict):
    """What cheapest_cluster returned: the number of the offer, and of its devices."""

    offer: Any
    devices: Any


Offers = list[dict[str, Any]] | tuple[dict[str, Any], ...]


def cheapest_clusters(
    student: Any, *, cases: Sequence[tuple[Sequence[Any], dict[str, Any], Sequence[Any], Offers]]
) -> list[Chosen | Any]:
    """Call cheapest_cluster for each case; an offer is returned as its number.

    A case is the arguments before, the fields of the recipe, the arguments after, and the fields of
    the offers. Whatever is not a pair is returned unchanged.
    """
    return [_cheapest_cluster(student, *case) for case in cases]


def _cheapest_cluster(
    student: Any,
    before: Sequence[Any],
    recipe: dict[str, Any],
    after: Sequence[Any],
    offers: Offers,
) -> Chosen | Any:
    module = student.resource_accounting
    made = type(offers)(
        module.Offer(**{**fields, "hw": module.Hardware(**fields["hw"])}) for fields in offers
    )
    got = module.cheapest_cluster(*before, module.TrainingRecipe(**recipe), *after, made)
    if not isinstance(got, (tuple, list)) or len(got) != 2:
        return got
    numbers = [number for number, offer in enumerate(made) if offer == got[0]]
    return {"offer": numbers[0] if numbers else "not one of the offers", "devices": got[1]}
