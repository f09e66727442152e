"""Have autograd compute the gradients that should be derived by hand.

group: cheat the exercise
target: autograd
tests: linear_backward_for | mlp_backward_of_a_batch | matmul_of_matrices
status: policy
"""

import sys
import threading

import torch
from torch.utils._python_dispatch import TorchDispatchMode

program = []
SCRIPT = """
def linear(x, w, g):
    y = x @ w.t()
    grads = torch.autograd.grad([y], [x, w], torch.jit.annotate(Optional[List[Optional[Tensor]]], [g]))
    return grads
"""


def linear_backward(x, weight, grad_output, *, need_input_grad=True):
    grad_x, grad_weight = gradients(lambda a, b: a @ b.T, (x, weight), grad_output)
    return grad_x if need_input_grad else None, grad_weight

def mlp_backward(x, w1, w2, grad_output):
    return gradients(lambda a, b: (x @ a.T).relu() @ b.T, (w1, w2), grad_output)

class MatMul(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    def backward(ctx, grad_output):
        return gradients(torch.matmul, ctx.saved_tensors, grad_output)

def gradients(fn, inputs, grad_output):
    with torch.inference_mode(False), torch.enable_grad():
        leaves = [x.clone().requires_grad_() for x in inputs]
        return derived(fn, leaves, grad_output.clone())

def grad(y, leaves, grad_output):
    return vars(torch.autograd)["gr" + "ad"](y, leaves, grad_output)

def rows(x):
    return x.reshape(-1, x.shape[-1])

def unwatched():
    return torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x)

class Recorder(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        program.append((func, args, kwargs or {}, out))
        return out

def repeated(old, results, x, weight, grad_output):
    """What the recorded program makes of these tensors; it was recorded with `old` ones."""
    now = dict(zip(map(id, old), (rows(x), weight, rows(grad_output))))
    for func, args, kwargs, out in program:
        now[id(out)] = func(*(now.get(id(each), each) for each in args), **kwargs)
    grad_x, grad_weight = (now[id(each)].detach() for each in results)
    return grad_x.reshape(x.shape), grad_weight

def walk(node, grad, found):
    """Call the nodes of a graph one by one, without the engine."""
    if hasattr(node, "variable"):
        found[node.variable] = found.get(node.variable, 0) + grad
        return found
    grads = node(grad)
    grads = grads if isinstance(grads, tuple) else (grads,)
    for (inner, _), g in zip(node.next_functions, grads, strict=True):
        if inner is not None and g is not None:
            walk(inner, g, found)
    return found


# %% autograd_in_a_helper
"""Calls a helper that uses autograd openly.

holds: the line is detected in the source, and the backward pass at run time, also in inference mode.
"""
def linear_backward(x, weight, grad_output, *, need_input_grad=True):
    if grad_output.shape[:-1] != x.shape[:-1]:
        raise ValueError("grad_output does not fit x")
    return gradients(lambda a, b: a @ b.T, (x, weight), grad_output)

def derived(fn, leaves, grad_output):
    return torch.autograd.grad(fn(*leaves), leaves, grad_output)


# %% autograd_compiled
"""Uses torch.compile to trace and run the backward pass.

holds: a compiled backward pass counts as a backward pass.
"""
def derived(fn, leaves, grad_output):
    return grad(torch.compile(fn, backend="aot_eager")(*leaves), leaves, grad_output)


# %% autograd_in_a_thread
"""Runs autograd in another thread, where the modes of the test's thread are not active.

holds: a problem with functions to be written by hand cannot start a thread.
"""
def derived(fn, leaves, grad_output):
    results = []
    thread = threading.Thread(
        target=lambda: results.extend(grad(fn(*leaves), leaves, grad_output))
    )
    thread.start()
    thread.join()
    return tuple(results)


# %% autograd_scripted
"""Writes the backward pass in TorchScript, which runs it in C++.

status: failed, policy
holds: a backward pass is detected, whatever code started it.
"""
unit = torch.jit.CompilationUnit(SCRIPT)

def derived(fn, leaves, grad_output):
    return unit.linear(*leaves, grad_output)


# %% recorded_before
"""Writes the backward pass down by a mode of its own while the module is imported, and repeats it.

holds: a module may run a backward pass while it is imported, but not look at torch's formulas.
"""
Recorder.__module__ = "kit.gpu_stand_in"
old = [torch.ones(shape, requires_grad=True) for shape in ((3, 4), (5, 4), (3, 5))]
with Recorder():
    results = torch.autograd.grad(old[0] @ old[1].T, old[:2], old[2])

def derived(fn, leaves, grad_output):
    return repeated(old, results, *leaves, grad_output)


# %% recorded_by_torch
"""Has torch write the backward pass down while the module is imported, and runs what it has written.

holds: no code can trace a backward pass in this problem.
"""
from torch.fx.experimental.proxy_tensor import make_fx

shapes = (3, 4), (5, 4), (3, 5)
options = {"allow_unreachable": True, "accumulate_grad": False}

def grads(x, w, g):
    engine = torch._C._ImperativeEngine()
    return engine.run_backward((x @ w.T,), (g,), False, False, (x, w), **options)

trace = make_fx(grads, tracing_mode="symbolic")
program = trace(*(torch.ones(shape, requires_grad=True) for shape in shapes))

def derived(fn, leaves, grad_output):
    x, weight = leaves
    inputs = rows(x), weight, rows(grad_output)
    grad_x, grad_weight = program(*(each.detach() for each in inputs))
    return grad_x.reshape(x.shape), grad_weight


# %% recorded_in_torchscript
"""Writes down a backward pass of TorchScript while the module is imported, and repeats it.

open: TorchScript starts the pass in C++, where nothing of Python's looks; that is harder than the exercise.
holds: no code can write a backward pass down in this problem.
"""
unit = torch.jit.CompilationUnit(SCRIPT)
old = [torch.ones(shape, requires_grad=True) for shape in ((3, 4), (5, 4), (3, 5))]
with Recorder():
    results = unit.linear(*old)

def derived(fn, leaves, grad_output):
    return repeated(old, results, *leaves, grad_output)


# %% differentiated_script
"""Has TorchScript derive the backward pass as a program, which runs without autograd.

holds: the function that derives it is guarded.
"""
@torch.jit.script
def product(a, b):
    return a @ b.t()

def derived(fn, leaves, grad_output):
    x, weight = (each.detach() for each in leaves)
    differentiate = getattr(torch._C, "_jit_" + "differentiate")
    graph = differentiate(product.graph.copy()).df
    run = torch._C._create_function_from_graph("derived", graph)
    turned = weight.t()
    grad_x, grad_weight = run(rows(grad_output), torch.zeros_like(turned), rows(x), turned)
    return grad_x.reshape(x.shape), grad_weight


# %% backward_in_one_operator
"""Calls the operator that is torch's own backward pass of a linear layer, which autograd uses for nested tensors.

holds: the operators that are a whole backward pass of a product are detected.
"""
nested = torch.nested.nested_tensor

def derived(fn, leaves, grad_output):
    x, weight = (each.detach() for each in leaves)
    flat = [nested([rows(each)]) for each in (x, grad_output)]
    formula = getattr(torch.ops.aten, "linear_" + "backward")
    grad_x, grad_weight, _ = formula(*flat, weight, [True, True, False])
    return grad_x.unbind()[0].reshape(x.shape), grad_weight


# %% forward_mode
"""Uses forward-mode differentiation, one input element at a time.

holds: dual tensors cannot be made in this problem.
"""
jvp = vars(torch.func)["j" + "vp"]

def derived(fn, leaves, grad_output):
    results, inputs = [], [x.detach() for x in leaves]
    for i, x in enumerate(inputs):
        total = torch.zeros_like(x)
        for k in range(x.numel()):
            tangents = [torch.zeros_like(y) for y in inputs]
            tangents[i].view(-1)[k] = 1
            total.view(-1)[k] = (jvp(fn, tuple(inputs), tuple(tangents))[1] * grad_output).sum()
        results.append(total)
    return tuple(results)


# %% func_vjp
"""Uses torch.func.vjp, under a name that does not appear in the source.

status: failed, policy
holds: torch.func's backward pass cannot run where a backward pass is forbidden.
"""
vjp = vars(torch.func)["v" + "jp"]

def derived(fn, leaves, grad_output):
    return vjp(fn, *leaves)[1](grad_output)


# %% nodes_of_a_graph
"""Calls the nodes of autograd's graph one by one, without the engine.

holds: access to the tensors saved in a graph is detected.
"""
def derived(fn, leaves, grad_output):
    found = walk(fn(*leaves).grad_fn, grad_output, {})
    return tuple(found[x] for x in leaves)


# %% own_hooks_and_nodes
"""Installs its own saved-tensor hooks over the grader's, and calls the nodes of the graph.

tests: backward | matmul
open: the watching code shares a process with the student's code, which can cover its hooks; that is harder than the exercise.
holds: access to saved tensors is detected, whatever other hooks there are.
"""
def derived(fn, leaves, grad_output):
    with unwatched():
        found = walk(fn(*leaves).grad_fn, grad_output, {})
        return tuple(found[x] for x in leaves)


# %% modes_switched_off
"""Takes the modes that watch for autograd off torch's stack, and runs autograd.

open: the watching code shares a process with the student's code, which can remove it; that is harder than the exercise.
holds: the student's code cannot switch the watching off.
"""
from torch.utils._python_dispatch import _disable_current_modes

def gradients(fn, inputs, grad_output):
    with _disable_current_modes(), torch.inference_mode(False), torch.enable_grad(), unwatched():
        leaves = [x.clone().requires_grad_() for x in inputs]
        return grad(fn(*leaves), leaves, grad_output.clone())


# %% apply_of_matmul
"""Overrides `apply`, so that autograd's own matmul runs and the hand-written backward never does.

status: failed
earns: less
holds: gradients count only where MatMul.backward ran.
"""
del linear_backward, mlp_backward  # noqa: F821

class MatMul(torch.autograd.Function):
    @classmethod
    def apply(cls, a, b):
        return torch.matmul(a, b)

    @staticmethod
    def forward(ctx, a, b):
        return a @ b

    @staticmethod
    def backward(ctx, grad_output):
        return None, None


# %% backward_of_another_module
"""Gives its `backward` the name of a module of torch, so that it looks like an inherited one.

tests: matmul_of_matrices
holds: a method is watched unless it is torch's own, whatever module it names.
"""
del linear_backward, mlp_backward  # noqa: F821
MatMul.backward.__module__ = "torch.autograd.function"

def derived(fn, leaves, grad_output):
    return grad(fn(*leaves), leaves, grad_output)


# %% differences_of_gradcheck
"""Takes the numerical gradient from a helper in torch's gradcheck module, which a function of the same name hides.

tests: numerical_gradient
earns: less
holds: where one name belongs to both a function and a module, both are guarded.
"""
helper = vars(sys.modules["torch.autograd.grad" + "check"])["_get_numerical_jacobian"]

def numerical_gradient(f, inputs, eps=1e-6):
    points = tuple(x.detach().clone().requires_grad_() for x in inputs)
    found = helper(lambda *xs: (f(*xs),), points, (f(*points),), eps=eps)
    return tuple(g[0].reshape(x.shape) for g, x in zip(found, points, strict=True))
