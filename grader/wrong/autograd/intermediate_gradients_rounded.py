"""The gradients are rounded to 6 decimals.

hint: a gradient may be as small as 1e-8 and as large as 1e4: change no number on the way
"""


def intermediate_gradients(module, x, names):
    outputs = {}

    def keep(name):
        def hook(module, args, output):
            outputs[name] = output if output.requires_grad else output.detach().requires_grad_()
            return outputs[name].clone()

        return hook

    with ExitStack() as hooks, torch.enable_grad():
        for name in names:
            hooks.enter_context(module.get_submodule(name).register_forward_hook(keep(name)))
        total = module(x).sum()
    gradients = torch.autograd.grad(total, [outputs[name] for name in names], materialize_grads=True)
    return {name: g.round(decimals=6) for name, g in zip(names, gradients)}
