"""The parameters are counted with their state.

hint: what the optimizer keeps, not what the model does
"""


def optimizer_state_bytes(optimizer):
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    tensors = parameters + [x for state in optimizer.state.values() for x in state.values() if torch.is_tensor(x)]
    return sum(x.numel() * x.element_size() for x in tensors if x.numel() > 1)
