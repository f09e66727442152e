"""numpy does all arithmetic that needs no graph, in float64."""

import numpy as np


def linear_backward(x, weight, grad_output, *, need_input_grad=True):
    vectors, upstream, w = (t.detach().double().numpy() for t in (x, grad_output, weight))
    grad_weight = upstream.reshape(-1, w.shape[0]).T @ vectors.reshape(-1, w.shape[1])
    grad_x = torch.from_numpy(np.asarray(upstream @ w)).to(x.dtype) if need_input_grad else None
    return grad_x, torch.from_numpy(grad_weight).to(x.dtype)


def mlp_backward(x, w1, w2, grad_output):
    dtype = x.dtype
    x, w1, w2, upstream = (t.detach().double().numpy() for t in (x, w1, w2, grad_output))
    hidden = np.maximum(x @ w1.T, 0)
    grad_hidden = np.where(hidden > 0, upstream @ w2, 0)
    return [
        torch.from_numpy(np.ascontiguousarray(g)).to(dtype)
        for g in (grad_hidden.T @ x, upstream.T @ hidden)
    ]


class MatMul(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        product = np.matmul(a.detach().double().numpy(), b.detach().double().numpy())
        return torch.from_numpy(product).to(a.dtype)

    @staticmethod
    def backward(ctx, grad_output):
        def reduced(g, shape):
            g = g.sum(axis=tuple(range(g.ndim - len(shape))))
            dims = tuple(d for d, n in enumerate(shape) if n == 1)
            summed = np.asarray(g.sum(axis=dims, keepdims=True)).reshape(shape)
            return torch.from_numpy(summed).to(grad_output.dtype)

        a, b, g = (t.detach().double().numpy() for t in (*ctx.saved_tensors, grad_output))
        return (
            reduced(g @ b.swapaxes(-1, -2), a.shape) if ctx.needs_input_grad[0] else None,
            reduced(a.swapaxes(-1, -2) @ g, b.shape) if ctx.needs_input_grad[1] else None,
        )


def numerical_gradient(f, inputs, eps=1e-6):
    arrays = [x.detach().double().numpy().copy() for x in inputs]
    gradients = [np.zeros(a.shape) for a in arrays]

    def value():
        return float(f(*(torch.from_numpy(a.copy()).to(x.dtype) for a, x in zip(arrays, inputs))))

    for array, gradient in zip(arrays, gradients):
        for index in np.ndindex(array.shape):
            old = array[index]
            array[index] = old + eps
            above = value()
            array[index] = old - eps
            gradient[index] = (above - value()) / (2 * eps)
            array[index] = old
    return tuple(torch.from_numpy(g).to(x.dtype) for g, x in zip(gradients, inputs))
