"""Calls the nodes of autograd's graph one by one, without the engine.

group: cheat the exercise
target: autograd
tests: backward | matmul
status: policy
earns: 0
holds: access to the tensors saved in a graph is detected.
"""

import torch


def walk(node, grad, found):
    if hasattr(node, "variable"):
        found[node.variable] = found.get(node.variable, 0) + grad
        return
    grads = node(grad)
    for (inner, _), g in zip(
        node.next_functions, grads if isinstance(grads, tuple) else (grads,), strict=True
    ):
        if inner is not None and g is not None:
            walk(inner, g, found)


def gradients(fn, inputs, grad_output):
    with torch.inference_mode(False), torch.enable_grad():
        leaves = [x.clone().requires_grad_() for x in inputs]
        found = {}
        walk(fn(*leaves).grad_fn, grad_output.clone(), found)
        return tuple(found[x] for x in leaves)


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
