"""The gradient is clamped to ±100 on its way through relu.

hint: a gradient may be as small as 1e-8 and as large as 1e4: change no number on the way
"""


def mlp_backward(x, w1, w2, grad_output):
    hidden = (x @ w1.T).relu()
    grad_hidden = (grad_output @ w2) * (hidden > 0)
    return grad_hidden.clamp(-100, 100).T @ x, grad_output.T @ hidden
