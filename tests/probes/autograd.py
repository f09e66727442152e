"""Probes for autograd.py.

Graphs, hooks and modules are in the student's process, so changes to them are read there.
"""

import itertools
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypedDict

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from kit.student import watching_generators

# The operators that multiply two tensors, in every form that a solution may use.
PRODUCTS = {
    *(
        "mm",
        "bmm",
        "addmm",
        "addbmm",
        "baddbmm",
        "mv",
        "addmv",
        "dot",
        "vdot",
        "addr",
        "mul",
        "mul_",
        "addcmul",
        "addcmul_",
    ),
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
    """The result of `linear_backward_by_need`, with and without the input's gradient.

    It has the answer and the number of products.
    """

    both: Any
    products_for_both: int
    weight_alone: Any
    products_for_weight: int


def linear_backward_by_need(
    student: Any, *, calls: Sequence[Sequence[Tensor]]
) -> list[Counted | None]:
    """linear_backward with the input's gradient (the default) and without it, for each call.

    None for a later call that fails with both gradients: other tests judge that.
    """
    linear_backward = student.autograd.linear_backward
    counted: list[Counted | None] = []
    for args in calls:
        with _Products() as products:
            try:
                both = linear_backward(*args)
            except Exception:
                if not counted:
                    raise
                counted.append(None)
                continue
            products_for_both = products.count
            weight_alone = linear_backward(*args, need_input_grad=False)
        counted.append(
            {
                "both": both,
                "products_for_both": products_for_both,
                "weight_alone": weight_alone,
                "products_for_weight": products.count - products_for_both,
            }
        )
    return counted


def linear_backward_refuses(student: Any, *, calls: Sequence[Sequence[Tensor]]) -> list[bool]:
    """Whether linear_backward refuses each call, with the gradient of x and without it."""
    refuses: list[bool] = []
    for args, need in itertools.product(calls, (True, False)):
        try:
            student.autograd.linear_backward(*args, need_input_grad=need)
        except NotImplementedError:
            raise
        except (ValueError, RuntimeError):
            refuses.append(True)
        else:
            refuses.append(False)
    return refuses


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


class Returned(TypedDict):
    """Everything that is known about a product and its backward pass.

    `output` and `gradients` are what a user sees, without gradients if the student's backward did
    not run. `returned` is what each call of the student's backward returned to autograd, and
    `products` is the number of products in that call. `inputs` are the operands and the upstream
    gradient after the call.
    """

    output: Any
    gradients: list[Tensor | None]
    returned: list[Any]
    products: int
    inputs: list[Tensor]


def _matmul(
    student: Any,
    *,
    a: Tensor,
    b: Tensor,
    upstream: Tensor,
    needs: Sequence[bool] = (True, True),
    layout: str = "as it is",
    another: bool = False,
) -> Returned:
    """MatMul.apply(a, b), and a backward pass of `upstream` if it has the output's shape and dtype.

    Args:
        student: The package.
        a: The left operand, a leaf.
        b: The right operand, a leaf.
        upstream: The gradient of the output.
        needs: Whether each operand requires a gradient.
        layout: With "expanded", a sum follows, whose gradient is one expanded number, scaled by the
            first entry of upstream.
        another: Whether two other products, one of these shapes, are computed before the backward
            pass, and the graph is used once more afterwards.
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
    if another:
        watching.apply(1 - a, 1 - b)
        watching.apply((1 - b).mT, (1 - a).mT)
    fits = isinstance(output, Tensor) and (output.shape, output.dtype) == (
        upstream.shape,
        upstream.dtype,
    )
    if fits and output.requires_grad:
        if layout == "expanded":
            torch.autograd.backward(output.sum(), upstream.flatten()[0])
        else:
            torch.autograd.backward(output, upstream, retain_graph=another)
        if another:
            for leaf in leaves:
                leaf.grad = None
            torch.autograd.backward(output, upstream)
    return {
        "output": output.detach() if isinstance(output, Tensor) else output,
        "gradients": [x.grad if returned else None for x in leaves],
        "returned": returned,
        "products": products.count,
        "inputs": [a, b, upstream],
    }


class Product(TypedDict):
    """What a user sees, from `Returned`."""

    output: Any
    gradients: list[Tensor | None]
    inputs: list[Tensor]


def matmul_each(student: Any, *, calls: Sequence[dict[str, Any]]) -> list[Product]:
    """MatMul.apply and a backward pass for several calls; see `_matmul` for what a call has."""
    each = [_matmul(student, **call) for call in calls]
    return [
        {"output": got["output"], "gradients": got["gradients"], "inputs": got["inputs"]}
        for got in each
    ]


class ByNeed(TypedDict):
    """What tests of `needs_input_grad` look at, from `Returned`."""

    gradients: list[Tensor | None]
    returned: list[Any]
    products: int


def matmul_by_need(
    student: Any, *, operands: Sequence[tuple[Tensor, Tensor, Tensor]]
) -> list[list[ByNeed] | None]:
    """For each a, b and upstream: `_matmul` with both gradients, that of a, and that of b.

    None for later operands that fail with both gradients: other tests judge that.
    """
    found: list[list[ByNeed] | None] = []
    for a, b, upstream in operands:
        given: Any = {"a": a, "b": b, "upstream": upstream}
        try:
            each = [_matmul(student, **given)]
        except Exception:
            if not found:
                raise
            found.append(None)
            continue
        each += [_matmul(student, **given, needs=needs) for needs in ((True, False), (False, True))]
        found.append(
            [
                {
                    "gradients": got["gradients"],
                    "returned": got["returned"],
                    "products": got["products"],
                }
                for got in each
            ]
        )
    return found


def matmul_after_a_change(student: Any, *, operands: Sequence[tuple[Tensor, Tensor]]) -> list[bool]:
    """Whether a backward pass raises RuntimeError after an in-place change of an operand.

    For each pair, each of the two is changed; both require a gradient, or only the other one does.
    """
    raised: list[bool] = []
    for pair, changed, both in itertools.product(operands, (0, 1), (True, False)):
        leaves = [x.detach().requires_grad_(both or i != changed) for i, x in enumerate(pair)]
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
    """The result of `numerical_gradient`."""

    result: Any
    inputs: list[Tensor]
    gradients: list[Tensor | None]
    list_is_as_it_was: bool
    grad_mode_is_the_same: bool
    generators_changed: list[str]


def numerical_gradient(
    student: Any,
    *,
    inputs: Sequence[Tensor],
    cubic: Sequence[Tensor],
    linear: Sequence[Tensor],
    factor: float = 1.0,
    requires_grad: bool = False,
    as_tuple: bool = False,
    twice: bool = False,
    grad_mode: bool = True,
    **options: Any,
) -> Differences:
    """numerical_gradient of Σ cubic · x³ + factor · Π (1 + Σ linear · x), hidden from autograd.

    Args:
        student: The package.
        inputs: The inputs. Views of one storage remain views of one storage here.
        cubic: Coefficients of each input's cubes.
        linear: Coefficients of each input in its factor of the product.
        factor: The factor of the product.
        requires_grad: Whether the inputs are leaves that require a gradient.
        as_tuple: Whether the inputs are given as a tuple.
        twice: Whether the first input is the last one, too.
        grad_mode: Whether gradients are enabled in the caller.
        **options: Passed on.
    """

    def f(*points: Tensor) -> Tensor:
        points = tuple(x.detach() for x in points)
        value = sum(
            ((c * x**3).sum() for c, x in zip(cubic, points, strict=True)), start=torch.zeros(())
        )
        product = torch.tensor(factor, dtype=torch.float64)
        for c, x in zip(linear, points, strict=True):
            product = product * (1 + (c * x).sum())
        return value + product

    leaves = [x.detach().requires_grad_() for x in inputs] if requires_grad else list(inputs)
    leaves += leaves[:twice]
    given = tuple(leaves) if as_tuple else list(leaves)
    numerical_gradient = student.autograd.numerical_gradient
    with torch.set_grad_enabled(grad_mode), watching_generators() as changed:
        result = numerical_gradient(f, given, **options)
        grad_mode_is_the_same = torch.is_grad_enabled() == grad_mode
    return {
        "result": result,
        "inputs": [x.detach() for x in leaves],
        "gradients": [x.grad for x in leaves],
        "list_is_as_it_was": [id(x) for x in given] == [id(x) for x in leaves],
        "grad_mode_is_the_same": grad_mode_is_the_same,
        "generators_changed": changed,
    }


def numerical_gradient_each(student: Any, *, calls: Sequence[dict[str, Any]]) -> list[Differences]:
    """The results of `numerical_gradient` for several calls."""
    return [numerical_gradient(student, **call) for call in calls]


def numerical_gradient_of_an_element(student: Any, *, x: Tensor, eps: float) -> Any:
    """numerical_gradient of a function that returns its input, or a view of its first element."""

    def f(point: Tensor) -> Tensor:
        return point[0] if point.dim() else point

    return student.autograd.numerical_gradient(f, [x], eps=eps)


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


def _embedding(weight: Tensor) -> nn.Module:
    return nn.Embedding(weight.shape[0], weight.shape[1], _weight=weight.clone())


class _Net(nn.Module):
    """Blocks, a matrix `side` with an unused output, and a matrix `head`; `idle` never runs.

    With `embed`, x holds the numbers of its rows. A `tied` net has a weight under two names. The
    output of a net that `doubles` is twice as large in training mode.
    """

    def __init__(
        self,
        blocks: Sequence[Tensor],
        side: Tensor,
        head: Tensor,
        inplace: bool,
        embed: Tensor | None = None,
        tied: bool = False,
        doubles: bool = False,
    ) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(_Block(weight, inplace) for weight in blocks)
        self.side, self.head, self.idle = _Layer(side), _Layer(head), _Layer(head)
        self.embed = nn.Identity() if embed is None else _embedding(embed)
        self.doubles = doubles
        self.runs = nn.Buffer(torch.zeros(()))
        if tied:
            self.idle.weight = self.head.weight

    def forward(self, x: Tensor) -> Tensor:
        self.runs.add_(1)
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        self.side(x)
        y: Tensor = self.head(x)
        return 2 * y if self.doubles and self.training else y


class _State(TypedDict):
    """Everything that a call could leave behind in a module and its input.

    `hooks` has the number of hooks of each kind in each submodule, and `attributes` the number of
    attributes of each submodule.
    """

    hooks: list[int]
    attributes: list[int]
    training: list[bool]
    requires_grad: list[bool]
    gradients: list[Tensor | None]
    input_requires_grad: bool
    input_gradient: Tensor | None
    input: Tensor
    runs: int


class Intermediate(TypedDict):
    """The result of `intermediate_gradients`, without `result` if an expected error was raised."""

    result: Any
    before: _State
    after: _State
    generators_changed: list[str]
    grad_mode_is_the_same: bool


def intermediate_gradients(
    student: Any,
    *,
    net: dict[str, Any],
    x: Tensor,
    names: Sequence[str],
    frozen: bool = False,
    grad_mode: bool = True,
    gradients: bool = False,
    evaluates: bool = False,
    fails: bool = False,
) -> Intermediate:
    """intermediate_gradients of a small net, and the states of net and input before and after it.

    Args:
        student: The package.
        net: The arguments of `_Net`.
        x: The net's input.
        names: The submodules.
        frozen: Whether all parameters are frozen.
        grad_mode: Whether gradients are enabled in the caller.
        gradients: Whether x and every second parameter already have a gradient.
        evaluates: Whether the module is in eval mode.
        fails: Whether an exception is expected; it is not passed on to the caller.
    """
    module = _Net(**net).requires_grad_(not frozen).train(not evaluates)
    module.blocks[-1].eval()
    for part in module.modules():
        part.register_forward_hook(lambda *_: None)  # not the student's
    x = x.detach()
    if gradients:
        x.requires_grad_().grad = torch.full_like(x, 3)
        for p in list(module.parameters())[::2]:
            p.grad = torch.full_like(p, 5)
    before = _state(module, x)
    result = None
    intermediate_gradients = student.autograd.intermediate_gradients
    with torch.set_grad_enabled(grad_mode), watching_generators() as changed:
        try:
            result = intermediate_gradients(module, x, names)
        except Exception:
            if not fails:
                raise
        grad_mode_is_the_same = torch.is_grad_enabled() == grad_mode
    after = _state(module, x)
    return {
        "result": result,
        "before": before,
        "after": after,
        "generators_changed": changed,
        "grad_mode_is_the_same": grad_mode_is_the_same,
    }


def intermediate_gradients_each(
    student: Any, *, calls: Sequence[dict[str, Any]]
) -> list[Intermediate]:
    """The results of `intermediate_gradients` for several calls."""
    return [intermediate_gradients(student, **call) for call in calls]


def intermediate_gradients_of_activations(student: Any, *, x: Tensor, names: Sequence[str]) -> Any:
    """intermediate_gradients of two leaky ReLUs, "0" and "1", which is also "1.0"."""
    module = nn.Sequential(nn.LeakyReLU(0.25), nn.Sequential(nn.LeakyReLU(0.25)))
    return student.autograd.intermediate_gradients(module, x, names)


def _state(module: _Net, x: Tensor) -> _State:
    modules = list(module.modules())
    parameters = list(module.parameters())
    return {
        "hooks": [
            len(value)
            for m in modules
            for key, value in sorted(vars(m).items())
            if key.endswith("_hooks") and value is not None
        ],
        "attributes": [len(vars(m)) for m in modules],
        "training": [m.training for m in modules],
        "requires_grad": [p.requires_grad for p in parameters],
        "gradients": [None if p.grad is None else p.grad.clone() for p in parameters],
        "input_requires_grad": x.requires_grad,
        "input_gradient": None if x.grad is None else x.grad.clone(),
        "input": x.detach().clone(),
        "runs": int(module.runs),
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
    generators_changed: list[str]


class _Kept:
    """A tensor that autograd keeps for the backward pass."""

    def __init__(self, x: Tensor) -> None:
        self.x = x


class _Expert(nn.Module):
    """A product with a matrix, of only those rows that begin with a positive number."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.layer = _Layer(weight)

    def forward(self, x: Tensor) -> Tensor:
        rows = x[:, 0] > 0
        if not rows.any():
            return x
        out = x.clone()
        out[rows] = self.layer(x[rows])
        return out


def make_model(
    weights: Sequence[Tensor], embed: Tensor | None = None, expert: Tensor | None = None
) -> nn.Sequential:
    """Matrices with a tanh between them, after an embedding or an expert if one is given."""
    layers: list[nn.Module] = [] if embed is None else [_embedding(embed)]
    layers += [] if expert is None else [_Expert(expert)]
    for weight in weights:
        layers += [_Layer(weight), nn.Tanh()]
    return nn.Sequential(*layers[:-1])


def mean_loss(name: str, scale: float = 1.0) -> Callable[[Tensor, Tensor], Tensor]:
    """A loss that is the mean over rows, times a scale."""
    if name == "square":
        return lambda output, y: (output - y).square().mean() * scale
    if name == "product":
        return lambda output, y: (output * y).flatten(1).sum(-1).mean() * scale
    return lambda output, y: nn.functional.cross_entropy(output.flatten(0, -2), y.flatten()) * scale


def accumulate_gradients(
    student: Any,
    *,
    weights: Sequence[Tensor],
    x: Tensor,
    y: Tensor,
    micro_batch_size: int,
    embed: Tensor | None = None,
    expert: Tensor | None = None,
    loss: str = "square",
    scale: float = 1.0,
    already: Sequence[Tensor | None] = (),
    watch: bool = False,
    evaluates: bool = False,
    frozen: Sequence[int] = (),
    of_data: bool = False,
    unused: bool = False,
) -> Accumulated:
    """accumulate_gradients of a small model.

    Args:
        student: The package.
        weights: See `make_model`.
        x: Inputs.
        y: Targets.
        micro_batch_size: Passed on.
        embed: See `make_model`.
        expert: See `make_model`.
        loss: See `mean_loss`.
        scale: See `mean_loss`.
        already: Gradients of the parameters before the call, in the order of `parameters()`.
        watch: Whether to count the tensors that autograd keeps.
        evaluates: Whether the model is in eval mode, where its dropout has no effect, has a buffer,
            and a second name for its last parameter.
        frozen: The numbers of the frozen parameters.
        of_data: Whether x and y require a gradient, too.
        unused: Whether the model has a first parameter that it does not use.
    """
    model: nn.Sequential = make_model(weights, embed, expert)
    if evaluates:
        twin = nn.Dropout(0.5)
        twin.register_buffer("steps", torch.zeros(()))
        twin.register_parameter("weight", list(model.parameters())[-1])
        model.append(twin).eval()
    if unused:
        model.register_parameter("unused", nn.Parameter(weights[0].clone()))
    for number in frozen:
        list(model.parameters())[number].requires_grad_(False)
    for p, gradient in zip(model.parameters(), already, strict=False):
        p.grad = None if gradient is None else gradient.clone()
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
    if of_data:
        x, y = x.detach().requires_grad_(), y.detach().requires_grad_()
    accumulate = student.autograd.accumulate_gradients
    packed: AbstractContextManager[Any] = nullcontext()
    if watch:
        packed = torch.autograd.graph.saved_tensors_hooks(pack, lambda item: item.x)
    with packed, watching_generators() as changed:
        value = accumulate(model, mean_loss(loss, scale), x, y, micro_batch_size)
    gradients = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
    return {
        "loss": value,
        "gradients": gradients,
        "rows": rows,
        "held": max(held, default=0),
        "x": x.detach(),
        "y": y.detach(),
        "generators_changed": changed,
    }


def accumulate_gradients_each(
    student: Any, *, calls: Sequence[dict[str, Any]]
) -> list[Accumulated]:
    """The results of `accumulate_gradients` for several calls."""
    return [accumulate_gradients(student, **call) for call in calls]
