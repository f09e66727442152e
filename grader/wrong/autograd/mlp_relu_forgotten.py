"""The gradient goes through relu as if it were not there.

hint: relu lets through only where its input was above 0
"""


def mlp_backward(x, w1, w2, grad_output):

    hidden = (x @ w1.T).relu()
    return (grad_output @ w2).T @ x, grad_output.T @ hidden
