"""MatMul leaves broadcast sums to autograd; copies of the inputs are changed and restored."""

import itertools


class MatMul(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    def backward(ctx, grad_output):
        a, b = ctx.saved_tensors
        grad_a = (grad_output @ b.mT) if ctx.needs_input_grad[0] else None
        grad_b = (a.mT @ grad_output) if ctx.needs_input_grad[1] else None
        return grad_a, grad_b


def numerical_gradient(f, inputs, eps=1e-6):
    gradients = []
    with torch.no_grad():
        points = [torch.tensor(x.tolist(), dtype=x.dtype).reshape(x.shape) for x in inputs]
        for x in points:
            gradient = torch.zeros_like(x)
            for index in itertools.product(*map(range, x.shape)):
                value = x[index].item()
                x[index] = value + eps
                above = f(*points).item()
                x[index] = value - eps
                below = f(*points).item()
                x[index] = value
                gradient[index] = (above - below) / (2 * eps)
            gradients.append(gradient)
    return tuple(gradients)
