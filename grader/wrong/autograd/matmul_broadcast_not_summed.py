"""The gradients have the product's leading dimensions, and autograd has to sum over what was broadcast.

hint: a gradient has the shape of what it belongs to
"""


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
