"""Probes for autograd.py.

Graphs, hooks and modules are in the student's process, so changes to them are read there.
"""

import weakref
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypedDict

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from kit.student import watching_generators
from tests.probes import copied, part

# The operators that multiply two tensors, in every form that a solution may use.
PRODUCTS = {
    *("mm", "bmm", "addmm", "addbmm", "baddbmm", "mv", "addmv", "dot", "vdot", "addr"),
    *("mul", "mul_", "addcmul", "addcmul_"),
    *("matmul", "linear", "einsum", "tensordot", "inner", "outer"),
}


class _Products(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the products that run inside it."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func.overloadpacket.__name__ in PRODUCTS
        return func(*args, **(kwargs or {}))


# --- linear_backward and mlp_backward


class Counted(TypedDict):
    """The answer without the input's gradient, and the numbers of products with and without it."""

    weight_alone: Any
    products_for_both: int
    products_for_weight: int


def linear_backward_by_need(student: Any, *, calls: Sequence[Sequence[Tensor]]) -> list[Counted]:
    """linear_backward with the input's gradient (the default) and without it, for each call."""
    linear_backward = student.autograd.linear_backward
    counted: list[Counted] = []
    for args in calls:
        with _Products() as both:
            linear_backward(*args)
        with _Products() as alone:
            weight_alone = linear_backward(*args, need_input_grad=False)
        counts = {"products_for_both": both.count, "products_for_weight": alone.count}
        counted.append(part(Counted, {"weight_alone": weight_alone, **counts}))
    return counted


def by_hand(
    student: Any,
    *,
    function: str,
    calls: Sequence[Sequence[Tensor]],
    graph: bool = False,
    **options: Any,
) -> list[Any]:
    """The results of calls of a function in inference mode, where autograd records nothing.

    With `graph`, gradients are enabled and every input requires one.
    """
    by_hand = getattr(student.autograd, function)
    if graph:
        return [by_hand(*(x.detach().requires_grad_() for x in args), **options) for args in calls]
    with torch.inference_mode():
        return [by_hand(*args, **options) for args in calls]


# --- MatMul


class _Passed(TypedDict):
    """A product and its backward pass.

    `gradients` are None if the student's backward did not run. `returned` is what each call of the
    student's backward returned to autograd, and `products` the number of products in these calls.
    """

    output: Any
    gradients: list[Tensor | None]
    returned: list[Any]
    products: int


def _matmul(
    student: Any, a: Tensor, b: Tensor, upstream: Tensor, needs: Sequence[bool] = (True, True)
) -> _Passed:
    """MatMul.apply(a, b), and a backward pass of `upstream` if that has the output's shape.

    Another product is computed between the two, as in a model.
    """
    theirs = student.autograd.MatMul
    returned: list[Any] = []
    products = _Products()

    def watched(ctx: Any, *grad_outputs: Tensor) -> Any:
        with products:
            result = theirs.backward(ctx, *grad_outputs)
        returned.append(result)
        return result

    leaves = [x.detach().requires_grad_(need) for x, need in zip((a, b), needs, strict=True)]
    watching: Any = type("MatMul", (theirs,), {"backward": staticmethod(watched)})
    output = watching.apply(*leaves)
    watching.apply((1 - b).mT, (1 - a).mT)
    is_tensor = isinstance(output, Tensor) and output.requires_grad
    if is_tensor and (output.shape, output.dtype) == (upstream.shape, upstream.dtype):
        torch.autograd.backward(output, upstream)
    return {
        "output": output.detach() if isinstance(output, Tensor) else output,
        "gradients": [x.grad if returned else None for x in leaves],
        "returned": returned,
        "products": products.count,
    }


class Product(TypedDict):
    """What a user sees, from `_Passed`."""

    output: Any
    gradients: list[Tensor | None]


def matmul_each(student: Any, *, calls: Sequence[tuple[Tensor, Tensor, Tensor]]) -> list[Product]:
    """MatMul.apply and a backward pass for each a, b and upstream gradient."""
    return [part(Product, _matmul(student, *call)) for call in calls]


class Alone(TypedDict):
    """A backward pass for one of two operands, from `_Passed`."""

    gradients: list[Tensor | None]
    returned: list[Any]
    products: int


class ByNeed(TypedDict):
    """Backward passes for the first and for the second operand alone."""

    products_for_both: int
    alone: list[Alone]


def matmul_by_need(student: Any, *, calls: Sequence[tuple[Tensor, Tensor, Tensor]]) -> list[ByNeed]:
    """For each a, b and upstream gradient: `_matmul` with both gradients, and with one of them."""
    found: list[ByNeed] = []
    for call in calls:
        each = [_matmul(student, *call, needs) for needs in ((True, False), (False, True))]
        alone = [part(Alone, got) for got in each]
        found.append({"products_for_both": _matmul(student, *call)["products"], "alone": alone})
    return found


def matmul_after_a_change(student: Any, *, a: Tensor, b: Tensor) -> list[bool]:
    """Whether a backward pass raises RuntimeError after an in-place change of a, or of b."""
    raised: list[bool] = []
    for changed in (0, 1):
        leaves = [x.detach().clone().requires_grad_() for x in (a, b)]
        output = student.autograd.MatMul.apply(*leaves)
        with torch.no_grad():
            leaves[changed].add_(1)
        try:
            torch.autograd.backward(output, torch.ones_like(output))
        except RuntimeError:
            raised.append(True)
        else:
            raised.append(False)
    return raised


# --- numerical_gradient


class Differences(TypedDict):
    result: Any
    inputs: list[Tensor]
    grad_mode_is_the_same: bool
    generators_changed: list[str]


def _numerical_gradient(
    student: Any,
    *,
    inputs: Sequence[Tensor],
    cubic: Sequence[Tensor],
    linear: Sequence[Tensor],
    requires_grad: bool = False,
    **options: Any,
) -> Differences:
    """numerical_gradient of Σ cubic · x³ + Π (1 + Σ linear · x), hidden from autograd.

    Args:
        cubic: Coefficients of each input's cubes.
        linear: Coefficients of each input in its factor of the product.
        requires_grad: Whether the inputs are leaves that require a gradient.
    """

    def f(*points: Tensor) -> Tensor:
        value, product = torch.zeros((), dtype=torch.float64), torch.ones((), dtype=torch.float64)
        for c3, c1, x in zip(cubic, linear, (x.detach() for x in points), strict=True):
            value = value + (c3 * x**3).sum()
            product = product * (1 + (c1 * x).sum())
        return value + product

    leaves = [x.detach().requires_grad_(requires_grad) for x in inputs]
    with watching_generators() as changed:
        result = student.autograd.numerical_gradient(f, list(leaves), **options)
        grad_mode_is_the_same = torch.is_grad_enabled()
        torch.set_grad_enabled(True)
    return {
        "result": result,
        "inputs": [x.detach() for x in leaves],
        "grad_mode_is_the_same": grad_mode_is_the_same,
        "generators_changed": changed,
    }


def numerical_gradient_each(student: Any, *, calls: Sequence[dict[str, Any]]) -> list[Differences]:
    """The results of `_numerical_gradient` for several calls."""
    return [_numerical_gradient(student, **call) for call in calls]


# --- intermediate_gradients


class _Layer(nn.Module):
    """A product with a matrix."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight.clone())

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weight)


class _Block(nn.Module):
    """A product with a matrix, then a leaky ReLU."""

    def __init__(self, weight: Tensor, inplace: bool) -> None:
        super().__init__()
        self.fc = _Layer(weight)
        self.act = nn.LeakyReLU(0.25, inplace=inplace)

    def forward(self, x: Tensor) -> Tensor:
        h: Tensor = self.act(self.fc(x))
        return h


class _Net(nn.Module):
    """Blocks, and a matrix `head`."""

    def __init__(self, blocks: Sequence[Tensor], head: Tensor, inplace: bool) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(_Block(weight, inplace) for weight in blocks)
        self.head = _Layer(head)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        y: Tensor = self.head(x)
        return y


class _State(TypedDict):
    """Everything that a call could leave behind in a module and its input.

    `hooks` has the number of hooks of each kind in each submodule. `gradients` are those of the
    parameters and of the input.
    """

    hooks: list[int]
    training: list[bool]
    requires_grad: list[bool]
    gradients: list[Tensor | None]
    input_requires_grad: bool
    input: Tensor


class Intermediate(TypedDict):
    """The result of `intermediate_gradients`, without `result` if an expected error was raised."""

    result: Any
    failed: bool
    before: _State
    after: _State
    generators_changed: list[str]
    grad_mode_is_the_same: bool


def _intermediate_gradients(
    student: Any,
    *,
    net: dict[str, Any],
    x: Tensor,
    names: Sequence[str],
    inplace: bool = False,
    frozen: str = "",
    gradients: bool = False,
    fails: bool = False,
) -> Intermediate:
    """intermediate_gradients of a small net, and the states of net and input before and after it.

    Args:
        inplace: Whether the net's activations work in place.
        frozen: Which parameters are frozen: "all", those of "blocks", or none.
        gradients: Whether x and every second parameter already have a gradient.
        fails: Whether an exception is expected; it is not passed on to the caller.
    """
    module = _Net(**net, inplace=inplace)
    if frozen:
        (module if frozen == "all" else module.blocks).requires_grad_(False)
    module.blocks[-1].eval()
    for layer in module.modules():
        layer.register_forward_hook(lambda *_: None)  # not the student's
    x = x.detach()
    if gradients:
        x.requires_grad_().grad = torch.full_like(x, 3)
        for p in list(module.parameters())[::2]:
            p.grad = torch.full_like(p, 5)
    before = _state(module, x)
    result, failed = None, False
    intermediate_gradients = student.autograd.intermediate_gradients
    with watching_generators() as changed:
        try:
            result = intermediate_gradients(module, x, names)
        except NotImplementedError:
            raise
        except (ValueError, KeyError, AttributeError, RuntimeError):
            if not fails:
                raise
            failed = True
        grad_mode_is_the_same = torch.is_grad_enabled()
        torch.set_grad_enabled(True)
    return {
        "result": result,
        "failed": failed,
        "before": before,
        "after": _state(module, x),
        "generators_changed": changed,
        "grad_mode_is_the_same": grad_mode_is_the_same,
    }


def intermediate_gradients_each(
    student: Any, *, calls: Sequence[dict[str, Any]]
) -> list[Intermediate]:
    """The results of `_intermediate_gradients` for several calls."""
    return [_intermediate_gradients(student, **call) for call in calls]


def _state(module: _Net, x: Tensor) -> _State:
    modules, parameters = list(module.modules()), list(module.parameters())
    return {
        "hooks": [
            len(value)
            for m in modules
            for key, value in sorted(vars(m).items())
            if key.endswith("_hooks") and value is not None
        ],
        "training": [m.training for m in modules],
        "requires_grad": [p.requires_grad for p in parameters],
        "gradients": [copied(t.grad) for t in (*parameters, x)],
        "input_requires_grad": x.requires_grad,
        "input": x.detach().clone(),
    }


# --- accumulate_gradients


class Accumulated(TypedDict):
    """The result of `accumulate_gradients`.

    `rows` is the number of rows in each call of the model. `held` is the largest number of tensors
    that autograd kept for a backward pass at such a moment.
    """

    loss: Any
    gradients: list[Tensor | None]
    rows: list[int]
    held: int
    x: Tensor
    y: Tensor
    trains: bool
    generators_changed: list[str]


class _Kept:
    """A tensor that autograd keeps for the backward pass."""

    def __init__(self, x: Tensor) -> None:
        self.x = x


OF_A_MODEL = ("weights", "embed", "already", "frozen", "unused")


def make_model(
    weights: Sequence[Tensor],
    embed: Tensor | None = None,
    already: Sequence[Tensor] = (),
    frozen: bool = False,
    unused: bool = False,
) -> nn.Sequential:
    """Matrices with a tanh between them.

    Args:
        embed: The weight of an embedding before them.
        already: The gradients that the first parameters already have.
        frozen: Whether the first matrix is frozen.
        unused: Whether the model has a first parameter that it does not use.
    """
    layers: list[nn.Module] = []
    if embed is not None:
        layers.append(nn.Embedding(embed.shape[0], embed.shape[1], _weight=embed.clone()))
    for weight in weights:
        layers += [_Layer(weight), nn.Tanh()]
    model = nn.Sequential(*layers[:-1])
    if frozen:
        next(model.parameters()).requires_grad_(False)
    if unused:
        model.register_parameter("unused", nn.Parameter(weights[0].clone()))
    for p, gradient in zip(model.parameters(), already, strict=False):
        p.grad = gradient.clone()
    return model


def mean_loss(output: Tensor, y: Tensor) -> Tensor:
    """A loss that is the mean over rows: squares, or for targets that are tokens cross-entropy."""
    if y.is_floating_point():
        return (output - y).square().mean()
    return nn.functional.cross_entropy(output.flatten(0, -2), y.flatten())


def _accumulate_gradients(
    student: Any,
    *,
    x: Tensor,
    y: Tensor,
    micro_batch_size: int,
    watch: bool = False,
    **of_a_model: Any,
) -> Accumulated:
    """accumulate_gradients of a small model.

    Args:
        watch: Whether to count the tensors that autograd keeps.
    """
    model = make_model(**of_a_model)
    rows: list[int] = []
    held: list[int] = []
    kept: weakref.WeakSet[_Kept] = weakref.WeakSet()

    def pack(x: Tensor) -> _Kept:
        item = _Kept(x)
        kept.add(item)
        return item

    def note(_: nn.Module, args: tuple[Tensor, ...]) -> None:
        rows.append(len(args[0]))
        held.append(len(kept))

    model.register_forward_pre_hook(note)
    accumulate = student.autograd.accumulate_gradients
    packed: AbstractContextManager[Any] = nullcontext()
    if watch:
        packed = torch.autograd.graph.saved_tensors_hooks(pack, lambda item: item.x)
    with packed, watching_generators() as changed:
        value = accumulate(model, mean_loss, x, y, micro_batch_size)
    return {
        "loss": value,
        "gradients": [copied(p.grad) for p in model.parameters()],
        "rows": rows,
        "held": max(held, default=0),
        "x": x,
        "y": y,
        "trains": model.training,
        "generators_changed": changed,
    }


def accumulate_gradients_each(
    student: Any, *, calls: Sequence[dict[str, Any]]
) -> list[Accumulated]:
    """The results of `_accumulate_gradients` for several calls."""
    return [_accumulate_gradients(student, **call) for call in calls]
