"""Probes: functions that run in the student's process, call the code and return plain data.

A probe takes `student` first and its inputs by name. It contains no expected value and makes
no judgement, because it runs where the student's code could read it. Inputs and outputs are
None, bool, int, float, str, bytes, torch dtypes, tensors, numpy arrays, and lists, tuples and
dicts of these. `kit.student` has probes that call any function.
"""

from collections.abc import Mapping
from typing import Any, TypeVar, cast, get_type_hints

Record = TypeVar("Record")


def part(kind: type[Record], whole: Mapping[str, Any]) -> Record:
    """The fields of a TypedDict, from a record that has more of them."""
    return cast(Record, {name: whole[name] for name in get_type_hints(kind)})


def copied(x: Any) -> Any:
    """A copy of a tensor as it is now, without its graph; None for None."""
    return None if x is None else x.detach().clone()
