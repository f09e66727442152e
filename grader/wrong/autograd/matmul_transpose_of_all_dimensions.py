"""All dimensions of an operand are reversed, not the last two.

hint: mT swaps the last two dimensions
"""


def reverse(x):
    return x.permute(*reversed(range(x.dim())))


class MatMul(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    def backward(ctx, grad_output):
        a, b = ctx.saved_tensors

        grad_a = (grad_output @ reverse(b)).sum_to_size(a.shape) if ctx.needs_input_grad[0] else None
        grad_b = (reverse(a) @ grad_output).sum_to_size(b.shape) if ctx.needs_input_grad[1] else None
        return grad_a, grad_b
