"""An operand that was broadcast gets the gradient of its first use.

hint: each use adds its gradient
"""


def reduce_to(grad, shape):
    while grad.dim() > len(shape):
        grad = grad[0]
    for d, size in enumerate(shape):
        grad = grad.narrow(d, 0, size)
    return grad


class MatMul(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    def backward(ctx, grad_output):
        a, b = ctx.saved_tensors
        grad_a = reduce_to(grad_output @ b.mT, a.shape) if ctx.needs_input_grad[0] else None
        grad_b = reduce_to(a.mT @ grad_output, b.shape) if ctx.needs_input_grad[1] else None
        return grad_a, grad_b
