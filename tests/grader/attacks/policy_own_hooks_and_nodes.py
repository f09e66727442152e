"""Installs its own saved-tensor hooks over the grader's, and calls the nodes of the graph.

group: cheat the exercise
target: autograd
tests: backward | matmul
status: policy
earns: 0
open: the watching code shares a process with the student's code, which can cover its hooks; that is harder than the exercise.
holds: access to saved tensors is detected, whatever other hooks there are.
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
    hooks = torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x)
    with torch.inference_mode(False), torch.enable_grad(), hooks:
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
