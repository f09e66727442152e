"""The first call builds a graph, and keeps it with all its activations for the backward pass.

hint: the first call runs with gradients off; the second one builds the graph
price: nothing is computed again, and that is what a checkpoint is
"""


class _Recompute(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, gate, *inputs):
        ctx.inputs = [x.detach().requires_grad_(x.requires_grad) for x in inputs]
        with torch.enable_grad():
            ctx.output = fn(*ctx.inputs)
        ctx.fn = fn
        return ctx.output.detach()

    @staticmethod
    def backward(ctx, grad_output):
        if ctx.output.requires_grad:
            torch.autograd.backward(ctx.output, grad_output)
        return None, None, *(x.grad for x in ctx.inputs)
