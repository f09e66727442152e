"""A student's module in which torch itself calls or reads functions that problems forbid.

Nothing here uses a forbidden function. `f` runs each route and returns what went wrong.
"""

import copy
import inspect
import io
import pickle
import platform
import timeit
import traceback
from contextlib import suppress

import torch
from torch import nn

unused = torch.compile(lambda x: x + 1)


@torch.compile
def decorated(x):
    return x.sin() @ x.T


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(4, 4))

    def forward(self, x):
        return torch.where(x > 0, x, x.exp() - 1) @ self.weight.T


class Descent(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, {"lr": 0.1})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                average = self.state[p].setdefault("average", torch.zeros_like(p))
                p.sub_(average.lerp_(p.grad, 0.1), alpha=group["lr"])


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return 2 * x

    @staticmethod
    def backward(ctx, gradient):
        return 2 * gradient


def scale(x: torch.Tensor):
    return torch.where(x > 0, x, x.exp() - 1) @ x.t()


def example():
    return torch.rand(4, 4, requires_grad=True)


def as_it_is(graph, inputs):
    return graph.forward


# --- torch.compile --------------------------------------------------------------------------------


def through_backends(backends=("inductor", as_it_is)):
    for backend in backends:
        torch.compiler.reset()
        torch.compile(lambda x: x.sin() @ x.T, backend=backend)(example()).sum().backward()
        torch.compile(Scale(), backend=backend)(example()).sum().backward()
        torch.compile(Double.apply, backend=backend)(example()).sum().backward()
        parameter = example()
        parameter.grad = torch.ones_like(parameter)
        torch.compile(Descent([parameter]).step, backend=backend)()


def through_other_backends():
    through_backends(["eager", "aot_eager", "aot_eager_decomp_partition", "cudagraphs"])


def through_modes():
    decorated(example())
    for mode in ("reduce-overhead", "max-autotune"):
        torch.compiler.reset()
        torch.compile(lambda x: x.cos(), mode=mode)(example())
    torch.compile(lambda x: x.cos() + 2, dynamic=True, fullgraph=True)(example())
    torch.compile(lambda x: x.cos(), options={"max_autotune": True})(example())
    with torch.compiler.set_stance("force_eager"):
        decorated(example())
    torch.compiler.disable(decorated)(example())


def through_the_compilers_tools():
    import torch._dynamo
    from torch._inductor import lowering  # noqa: F401
    from torch._inductor.fx_passes import joint_graph, post_grad, pre_grad  # noqa: F401

    torch._dynamo.explain(lambda x: x + 1)(example())
    torch._dynamo.list_backends(None)
    torch._decomp.core_aten_decompositions()


# --- other ways to trace --------------------------------------------------------------------------


def through_export():
    for strict in (False, True):
        exported = torch.export.export(Scale(), (torch.rand(4, 4),), strict=strict)
        exported.run_decompositions().module()(torch.rand(4, 4))


def through_torchscript():
    for made in (torch.jit.script(scale), torch.jit.trace(scale, torch.rand(4, 4))):
        made(example()).sum().backward()
        file = io.BytesIO()
        torch.jit.save(made, file)
        file.seek(0)
        torch.jit.load(file)(example())
    torch.jit.freeze(torch.jit.script(Scale().eval()))(example())
    from torch.jit import supported_ops  # noqa: F401


def through_fx():
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.fx.passes.shape_prop import ShapeProp

    ShapeProp(torch.fx.symbolic_trace(Scale())).propagate(torch.rand(4, 4))
    for mode in ("real", "fake", "symbolic"):
        make_fx(scale, tracing_mode=mode)(torch.rand(4, 4))
    scale(torch.empty(4, 4, device="meta"))


def through_functorch():
    torch.vmap(scale)(torch.rand(2, 4, 4))
    torch.func.functional_call(Scale(), {"weight": torch.rand(4, 4)}, (torch.rand(4, 4),))
    torch.func.functionalize(scale)(torch.rand(4, 4))
    torch.func.grad(lambda x: scale(x).sum())(torch.rand(4, 4))
    torch.func.jacrev(scale)(torch.rand(4, 4))


def traces_a_backward_pass():
    from functorch.compile import aot_function, nop

    aot_function(scale, nop)(example()).sum().backward()


def through_higher_order_operators():
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    torch.cond(torch.tensor(True), lambda x: x + 1, lambda x: x - 1, (torch.rand(4),))
    q = torch.rand(1, 1, 16, 8)
    flex_attention(q, q, q)
    create_block_mask(lambda b, h, i, j: i >= j, 1, 1, 128, 128)


# --- registries, modes, caches --------------------------------------------------------------------


def through_the_library():
    @torch.library.custom_op("routes::copied", mutates_args=())
    def copied(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    copied.register_fake(torch.empty_like)
    copied.register_autograd(lambda ctx, gradient: gradient)
    copied(example()).sum().backward()
    torch.compile(lambda x: copied(x) + 1, backend="aot_eager")(example())
    torch.library.opcheck(copied, (torch.rand(4),))


def through_autocast():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        (scale(example()) + Scale()(example())).sum().backward()
        nn.functional.conv1d(torch.rand(1, 4, 4), torch.rand(4, 4, 1))
    torch.clear_autocast_cache()


def through_modes_and_hooks():
    from torch.overrides import TorchFunctionMode

    class Mode(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            return function(*args, **(kwargs or {}))

    with Mode(), torch.device("cpu"), torch.autograd.graph.save_on_cpu():
        scale(example()).sum().backward()
    with torch.autograd.detect_anomaly(check_nan=False), torch.profiler.record_function("scale"):
        scale(example()).sum().backward()
    torch.overrides.get_testing_overrides()


def through_tensors_of_other_kinds():
    nested = torch.nested.nested_tensor([torch.rand(2, 4), torch.rand(3, 4)], layout=torch.jagged)
    (nested * 2).sum()
    torch.rand(4, 4).to_sparse() @ torch.rand(4, 4)
    scale(torch.rand(4, 4).as_subclass(type("Mine", (torch.Tensor,), {})))


# --- imports and inspection -----------------------------------------------------------------------


def through_imports():
    import torch.ao.quantization
    import torch.distributed.checkpoint
    import torch.distributed.fsdp
    import torch.distributed.optim
    import torch.distributed.tensor
    import torch.nn.parallel
    import torch.nn.utils.parametrizations
    import torch.nn.utils.prune
    import torch.onnx
    import torch.utils.benchmark  # noqa: F401


def through_inspection():
    for module in (torch, nn, nn.functional, torch.optim, torch.autograd, torch._C._nn):
        for _, found in inspect.getmembers(module, callable):
            repr(found), getattr(found, "__name__", None), getattr(found, "_anything", None)
            with suppress(ValueError, TypeError):
                inspect.signature(found)
    for name in ("linear", "_fused_adamw_", "_fused_sgd", "_make_dual"):
        operator = getattr(torch.ops.aten, name)
        operator.overloads(), str(operator), operator.default.name()


def through_everyday_code():
    copy.deepcopy(pickle.loads(pickle.dumps(Scale())))
    timeit.timeit(lambda: scale(torch.rand(4, 4)), number=1)
    platform.platform(), platform.processor(), platform.libc_ver()
    torch.utils.benchmark.Timer("x + 1", globals={"x": torch.rand(4)}).timeit(2)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.rand(4)))
    list(loader)
    torch.use_deterministic_algorithms(True, warn_only=True)
    scale(torch.rand(4, 4))


def f(names):
    """Run these routes; return the traceback of each that failed."""
    wrong = {}
    for name in names:
        torch.compiler.reset()
        try:
            globals()[name]()
        except Exception:
            wrong[name] = traceback.format_exc()[-1500:]
    return wrong
