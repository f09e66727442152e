"""The upstream gradient is flattened with view, which fails where it is not contiguous.

hint: an upstream gradient may be a transposed or an expanded one
"""


class MatMul(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    def backward(ctx, grad_output):
        a, b = ctx.saved_tensors

        m, n = grad_output.shape[-2:]
        flat = grad_output.view(-1, m, n)
        grad_output = flat.view(grad_output.shape)
        grad_a = (grad_output @ b.mT).sum_to_size(a.shape) if ctx.needs_input_grad[0] else None
        grad_b = (a.mT @ grad_output).sum_to_size(b.shape) if ctx.needs_input_grad[1] else None
        return grad_a, grad_b
