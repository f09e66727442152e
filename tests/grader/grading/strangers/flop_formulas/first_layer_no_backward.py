"""The first layer has no backward pass at all."""


def mlp_flops(batch, dims, *, backward=False):
    total = 0
    for layer, (i, o) in enumerate(zip(dims[:-1], dims[1:])):
        total += 2 * batch * i * o * (3 if backward and layer else 1)
    return total
