"""The cross-entropy of bfloat16 logits is computed in bfloat16.

hint: inside autocast it runs in float32
"""


def _loss(model, x, y, config):
    dtype = config.autocast_dtype
    with torch.autocast(torch.device(config.device).type, dtype=dtype, enabled=dtype is not None):
        logits = model(x)
    return F.cross_entropy(logits.flatten(0, 1), y.flatten())
