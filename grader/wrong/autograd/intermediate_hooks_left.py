"""The hooks stay in the module.

hint: keep the handle that registering returns, and remove it
"""


def intermediate_gradients(module, x, names):
    outputs = {}

    def keep(name):
        def hook(module, args, output):
            outputs[name] = output if output.requires_grad else output.detach().requires_grad_()
            return outputs[name].clone()

        return hook

    with torch.enable_grad():
        for name in names:
            module.get_submodule(name).register_forward_hook(keep(name))
        total = module(x).sum()
    gradients = torch.autograd.grad(total, [outputs[name] for name in names], materialize_grads=True)
    return dict(zip(names, gradients))
