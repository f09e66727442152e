"""Two numbers for each weight are assumed, whatever stands in the state.

hint: ask the state, not the parameters
"""


def optimizer_state_bytes(optimizer):
    parameters = [p for group in optimizer.param_groups for p in group["params"] if p in optimizer.state]
    return sum(2 * p.numel() * p.element_size() for p in parameters if p.numel() > 1)
