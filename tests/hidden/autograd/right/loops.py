"""Loops over vectors, batches and elements, and indexes them by hand."""

import itertools


def linear_backward(x, weight, grad_output, *, need_input_grad=True):
    if x.shape[:-1] != grad_output.shape[:-1] or grad_output.shape[-1] != weight.shape[0]:
        raise ValueError(f"grad_output of shape {tuple(grad_output.shape)} does not fit")
    grad_weight = torch.zeros_like(weight)
    grad_x = torch.zeros_like(x) if need_input_grad else None
    for index in itertools.product(*(range(n) for n in x.shape[:-1])):
        for o in range(weight.shape[0]):
            grad_weight[o] += grad_output[index][o] * x[index]
            if need_input_grad:
                grad_x[index] += grad_output[index][o] * weight[o]
    return grad_x, grad_weight


def mlp_backward(x, w1, w2, grad_output):
    grad_w1, grad_w2 = torch.zeros_like(w1), torch.zeros_like(w2)
    for row, upstream in zip(x, grad_output):
        z = w1 @ row
        hidden = torch.where(z > 0, z, torch.zeros_like(z))
        grad_w2 += torch.outer(upstream, hidden)
        grad_hidden = w2.T @ upstream
        grad_hidden[z <= 0] = 0.0
        grad_w1 += torch.outer(grad_hidden, row)
    return grad_w1, grad_w2


class MatMul(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return torch.matmul(a, b)

    @staticmethod
    def backward(ctx, grad_output):
        a, b = ctx.saved_tensors
        batch = grad_output.shape[:-2]
        gradients = [
            torch.zeros_like(x) if need else None for x, need in zip((a, b), ctx.needs_input_grad)
        ]
        views = [None if g is None else g.expand(*batch, *g.shape[-2:]) for g in gradients]
        wide_a, wide_b = a.expand(*batch, *a.shape[-2:]), b.expand(*batch, *b.shape[-2:])
        for index in itertools.product(*map(range, batch)):
            if views[0] is not None:
                views[0][index] += grad_output[index] @ wide_b[index].T
            if views[1] is not None:
                views[1][index] += wide_a[index].T @ grad_output[index]
        return tuple(gradients)


def numerical_gradient(f, inputs, eps=1e-6):
    gradients = []
    for k, x in enumerate(inputs):
        gradient = torch.zeros(x.shape, dtype=x.dtype)
        for index in itertools.product(*map(range, x.shape)):
            values = []
            for step in (eps, -eps):
                points = [other.detach().clone() for other in inputs]
                points[k] = (
                    points[k].contiguous()
                    if points[k].is_contiguous()
                    else points[k].reshape(x.shape).clone()
                )
                dense = torch.empty(x.shape, dtype=x.dtype).copy_(points[k])
                dense[index] += step
                points[k] = dense
                values.append(f(*points))
            gradient[index] = (values[0] - values[1]) / (2 * eps)
        gradients.append(gradient)
    return tuple(gradients)


def intermediate_gradients(module, x, names):
    """Run one forward and one backward pass per name, each from the same buffers."""
    known = dict(module.named_modules())
    buffers = [(buffer, buffer.clone()) for buffer in module.buffers()]
    answer = {}
    for name in names:
        if name not in known:
            raise ValueError(f"names has {name!r}, which is no submodule")
        seen = []
        for buffer, before in buffers:
            buffer.copy_(before)

        def hook(_module, _args, output):
            seen.append(output.detach().requires_grad_())
            return seen[0] * 1

        handle = known[name].register_forward_hook(hook)
        try:
            with torch.enable_grad():
                total = module(x).sum()
        finally:
            handle.remove()
        if not seen:
            raise ValueError(f"names has {name!r}, which does not run")
        (gradient,) = (
            torch.autograd.grad(total, seen, allow_unused=True) if total.requires_grad else (None,)
        )
        answer[name] = torch.zeros_like(seen[0]) if gradient is None else gradient
    return answer


def accumulate_gradients(model, loss_fn, x, y, micro_batch_size):
    n = x.shape[0]
    if y.shape[0] != n:
        raise ValueError("x and y must have as many rows")
    losses, start = [], 0
    while start < n:
        stop = min(start + micro_batch_size, n)
        weighted = loss_fn(model(x[start:stop]), y[start:stop]) * (stop - start) / n
        weighted.backward()
        losses.append(weighted.detach())
        start = stop
    return float(sum(losses))
