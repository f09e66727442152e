"""Loops over vectors, batches and elements, and indexes them by hand."""

import itertools


def linear_backward(x, weight, grad_output, *, need_input_grad=True):
    rows_x = x.reshape(-1, x.shape[-1])
    rows_g = grad_output.reshape(-1, grad_output.shape[-1])
    grad_weight = torch.zeros_like(weight)
    for row, upstream in zip(rows_x, rows_g):
        grad_weight = grad_weight + torch.outer(upstream, row)
    if not need_input_grad:
        return None, grad_weight
    return (rows_g @ weight).reshape(x.shape), grad_weight


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
    """Change the inputs themselves, and put the old numbers back."""
    result = []
    for x in inputs:
        gradient = torch.empty_like(x, requires_grad=False)
        for index in itertools.product(*map(range, x.shape)):
            saved = x.data[index].clone()
            try:
                with torch.no_grad():
                    x.data[index] = saved + eps
                    above = float(f(*inputs))
                    x.data[index] = saved - eps
                    below = float(f(*inputs))
            finally:
                x.data[index] = saved
            gradient[index] = (above - below) / (eps + eps)
        result.append(gradient)
    return tuple(result)


def intermediate_gradients(module, x, names):
    """Run one forward and one backward pass per name."""
    known = dict(module.named_modules())
    answer = {}
    for name in names:
        seen = []

        def hook(_module, _args, output):
            seen.append(output.detach().requires_grad_())
            return seen[0] * 1

        handle = known[name].register_forward_hook(hook)
        try:
            total = module(x).sum()
        finally:
            handle.remove()
        (answer[name],) = torch.autograd.grad(total, seen)
    return answer


def accumulate_gradients(model, loss_fn, x, y, micro_batch_size):
    n = x.shape[0]
    losses, start = [], 0
    while start < n:
        stop = min(start + micro_batch_size, n)
        weighted = loss_fn(model(x[start:stop]), y[start:stop]) * (stop - start) / n
        weighted.backward()
        losses.append(weighted.detach())
        start = stop
    return float(sum(losses))
