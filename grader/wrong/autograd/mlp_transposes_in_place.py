"""A weight is transposed in place, and stays so.

hint: .T, not t_()
"""


def mlp_backward(x, w1, w2, grad_output):

    hidden = (x @ w1.T).relu()
    grad_w2 = grad_output.T @ hidden
    return ((w2.t_() @ grad_output.T) * (hidden.T > 0)) @ x, grad_w2
