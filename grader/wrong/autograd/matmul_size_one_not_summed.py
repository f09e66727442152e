"""Missing dimensions are summed over, broadcast dimensions of size 1 are not.

hint: a dimension of size 1 is broadcast as well
"""


def reduce_to(grad, shape):
    while grad.dim() > len(shape):
        grad = grad.sum(dim=0)
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
