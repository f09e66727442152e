"""Everything is computed in float32.

hint: compute in the dtype of the inputs
"""


def linear_backward(x, weight, grad_output, *, need_input_grad=True):
    if grad_output.shape[:-1] != x.shape[:-1]:
        raise ValueError("grad_output does not fit x")

    x32, weight32, g32 = x.float(), weight.float(), grad_output.float()
    grad_x = (g32 @ weight32).to(x.dtype) if need_input_grad else None
    return grad_x, (g32.reshape(-1, weight.shape[0]).T @ x32.reshape(-1, weight.shape[1])).to(weight.dtype)
