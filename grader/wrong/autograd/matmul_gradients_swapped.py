"""The gradients are returned in the wrong order.

hint: as many as forward has arguments, in their order
"""


class MatMul(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    def backward(ctx, grad_output):
        a, b = ctx.saved_tensors
        grad_a = (grad_output @ b.mT).sum_to_size(a.shape) if ctx.needs_input_grad[0] else None
        grad_b = (a.mT @ grad_output).sum_to_size(b.shape) if ctx.needs_input_grad[1] else None
        return grad_b, grad_a
