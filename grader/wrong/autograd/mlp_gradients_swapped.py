"""The gradients come in the order of the backward pass, w2 first.

hint: w1 first, as in the arguments
"""


def mlp_backward(x, w1, w2, grad_output):

    hidden = (x @ w1.T).relu()
    return grad_output.T @ hidden, ((grad_output @ w2) * (hidden > 0)).T @ x
