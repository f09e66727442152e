"""Only the first group's parameters are looked at.

hint: go through all of optimizer.state
"""


def optimizer_state_bytes(optimizer):
    tensors = [x for p in optimizer.param_groups[0]["params"] for x in optimizer.state[p].values() if torch.is_tensor(x)]
    return sum(x.numel() * x.element_size() for x in tensors if x.numel() > 1)
