"""The second pass asks for the gradients of the inputs alone; those of the weights are thrown away.

is: parameters_without_gradient
"""


class Rerun(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, dummy, *args):
        ctx.run = run
        ctx.state = torch.get_rng_state()
        ctx.amp = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
        ctx.save_for_backward(*args)
        return run(*args)

    @staticmethod
    def backward(ctx, upstream):
        now = torch.get_rng_state()
        copies = []
        for a in ctx.saved_tensors:
            c = a.detach()
            c.requires_grad = a.requires_grad
            copies.append(c)
        on, dtype = ctx.amp
        torch.set_rng_state(ctx.state)
        with torch.enable_grad(), torch.autocast("cpu", dtype=dtype, enabled=on):
            out = ctx.run(*copies)
        torch.set_rng_state(now)
        wanted = [c for c in copies if c.requires_grad]
        found = iter(torch.autograd.grad(out, wanted, upstream) if wanted else [])
        return (None, None, *[next(found) if c.requires_grad else None for c in copies])


def checkpoint(fn, *inputs):
    dummy = torch.zeros(1, requires_grad=True)
    return Rerun.apply(fn, dummy, *inputs)
