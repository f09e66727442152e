"""Operands are transposed with t(), which takes two dimensions at most.

hint: mT swaps the last two dimensions
"""


class MatMul(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    def backward(ctx, grad_output):
        a, b = ctx.saved_tensors
        grad_a = (grad_output @ b.t()).sum_to_size(a.shape) if ctx.needs_input_grad[0] else None
        grad_b = (a.t() @ grad_output).sum_to_size(b.shape) if ctx.needs_input_grad[1] else None
        return grad_a, grad_b
