"""relu is applied to the gradient instead of its slope.

hint: the mask comes from the forward pass, not from the sign of the gradient
"""


def mlp_backward(x, w1, w2, grad_output):

    hidden = (x @ w1.T).relu()
    return (grad_output @ w2).relu().T @ x, grad_output.T @ hidden
