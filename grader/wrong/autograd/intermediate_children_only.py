"""Only direct children are found by name.

hint: named_modules() or get_submodule() know nested names
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
            hooks.enter_context(dict(module.named_children())[name].register_forward_hook(keep(name)))
        total = module(x).sum()
    gradients = torch.autograd.grad(total, [outputs[name] for name in names], materialize_grads=True)
    return dict(zip(names, gradients))
