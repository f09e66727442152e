"""The hooks are removed at the end, which an exception does not reach.

hint: try … finally, or with
"""


def intermediate_gradients(module, x, names):
    outputs = {}

    def keep(name):
        def hook(module, args, output):
            outputs[name] = output if output.requires_grad else output.detach().requires_grad_()
            return outputs[name].clone()

        return hook

    handles = []
    with torch.enable_grad():
        for name in names:
            handles.append(module.get_submodule(name).register_forward_hook(keep(name)))
        total = module(x).sum()
    for handle in handles:
        handle.remove()
    gradients = torch.autograd.grad(total, [outputs[name] for name in names], materialize_grads=True)
    return dict(zip(names, gradients))
