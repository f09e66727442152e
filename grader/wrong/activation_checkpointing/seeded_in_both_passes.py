"""A seed is set before each of the two calls, so that the run goes on with other random numbers than a plain one.

hint: keep torch's random state as it is, and put it back for the second call
"""


class _Recompute(torch.autograd.Function):
    """fn(*inputs) that keeps the inputs. `gate` requires a gradient, so that backward runs where no input needs one."""

    @staticmethod
    def forward(ctx, fn, gate, *inputs):
        ctx.fn = fn
        ctx.seed = int(torch.randint(2**31, ()))
        torch.manual_seed(ctx.seed)
        devices = ["cpu"] + ["cuda"] * torch.cuda.is_available()
        ctx.autocast = [(d, torch.get_autocast_dtype(d), torch.is_autocast_enabled(d)) for d in devices]
        ctx.save_for_backward(*inputs)
        return fn(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        inputs = [x.detach().requires_grad_(x.requires_grad) for x in ctx.saved_tensors]
        with torch.random.fork_rng(), torch.enable_grad(), contextlib.ExitStack() as stack:
            torch.manual_seed(ctx.seed)
            for autocast in ctx.autocast:
                stack.enter_context(torch.autocast(*autocast))
            output = ctx.fn(*inputs)
        if output.requires_grad:  # it does not where inputs and parameters are all frozen
            torch.autograd.backward(output, grad_output)
        return None, None, *(x.grad for x in inputs)
