"""Before the first call a seed is drawn and set, so a run draws other numbers than one without checkpoint.

is: seeded_in_both_passes
"""


class Rerun(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, dummy, *args):
        ctx.run = run
        ctx.seed = int(torch.randint(2**31, ()))
        torch.manual_seed(ctx.seed)
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
        torch.manual_seed(ctx.seed)
        with torch.enable_grad(), torch.autocast("cpu", dtype=dtype, enabled=on):
            out = ctx.run(*copies)
        torch.set_rng_state(now)
        if out.requires_grad:
            out.backward(upstream)
        return (None, None, *[c.grad for c in copies])


def checkpoint(fn, *inputs):
    dummy = torch.zeros(1, requires_grad=True)
    return Rerun.apply(fn, dummy, *inputs)
