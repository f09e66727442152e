"""The gradient belongs to what the submodule was given.

hint: a forward hook is given module, args and output
"""


def intermediate_gradients(module, x, names):
    outputs = {}

    def keep(name):
        def hook(module, args):
            outputs[name] = args[0] if args[0].requires_grad else args[0].detach().requires_grad_()
            return outputs[name].clone()

        return hook

    with ExitStack() as hooks, torch.enable_grad():
        for name in names:
            hooks.enter_context(module.get_submodule(name).register_forward_pre_hook(keep(name)))
        total = module(x).sum()
    gradients = torch.autograd.grad(total, [outputs[name] for name in names], materialize_grads=True)
    return dict(zip(names, gradients))
