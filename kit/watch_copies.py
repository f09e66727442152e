"""Record how copies to a real GPU are made, in the stand-in's words."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from kit import stand_in

# Functions that may copy to a GPU, and the position of the argument that is copied.
MOVES = {"to": 0, "cuda": 0, "copy_": 1}


def watched(
    copies: list[str],
    main: Callable[[], Any] = lambda: None,
    before: Callable[[], None] = lambda: None,
) -> Any:
    """A context in which each copy from the CPU to a GPU adds a line to `copies`.

    Args:
        main: Returns the stream that kernels use.
        before: Called before each copy, with the copy's stream as the current one.
    """
    return stand_in.in_every_thread(lambda: _CopyWatch(copies, main, before))


class _CopyWatch(TorchFunctionMode):
    def __init__(
        self, copies: list[str], main: Callable[[], Any], before: Callable[[], None]
    ) -> None:
        super().__init__()
        self._copies, self._main, self._before = copies, main, before

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        position = MOVES.get(getattr(func, "__name__", ""), len(args))
        source, *_ = args[position:] or (None,)
        if not isinstance(source, Tensor) or source.is_cuda:
            return func(*args, **(kwargs or {}))
        targets = (*args[:position], *args[position + 1 :], *(kwargs or {}).values())
        if func.__name__ == "cuda" or any(map(_is_on_a_gpu, targets)):
            self._before()
        out = func(*args, **(kwargs or {}))
        if isinstance(out, Tensor) and out.is_cuda:
            non_blocking = (kwargs or {}).get("non_blocking", False) or any(a is True for a in args)
            on_main = torch.cuda.current_stream() == self._main()
            self._copies.append(stand_in.described(source.is_pinned(), non_blocking, on_main))
        return out


def _is_on_a_gpu(target: object) -> bool:
    """Whether an argument of a move is a GPU, or a tensor on one."""
    if isinstance(target, Tensor):
        return target.is_cuda
    return str(target).startswith("cuda") or type(target) is int
