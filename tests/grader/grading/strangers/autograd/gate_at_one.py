"""relu's gate is open only where its input is above 1."""


def mlp_backward(x, w1, w2, grad_output):
    z = x.mm(w1.t())
    dh = grad_output.mm(w2).masked_fill(z <= 1, 0)
    return dh.t().mm(x), grad_output.t().mm(torch.maximum(z, torch.zeros_like(z)))
