"""Plain torch, as in many attention layers: unflatten, transpose, reshape and matmul."""


def split_heads(x, heads):
    return x.unflatten(-1, (heads, -1)).transpose(-2, -3)


def merge_heads(x):
    return x.transpose(-2, -3).flatten(-2)


def attention_scores(q, k):
    return torch.matmul(q, k.transpose(-2, -1)) / q.size(-1) ** 0.5


def per_head_linear(x, w):
    heads, d_in, d_out = w.size()
    x = x.unflatten(-1, (heads, d_in)).unsqueeze(-2)
    return (x @ w).squeeze(-2).flatten(-2)


def masked_mean(x, mask):
    if x.shape[:-1] != mask.shape:
        raise ValueError(
            f"mask of shape {list(mask.shape)} does not fit x of shape {list(x.shape)}"
        )
    count = mask.sum(-1, keepdim=True)
    return (x.masked_fill(~mask[..., None], 0.0).sum(-2) / count).masked_fill(count == 0, 0.0)


def patchify(images, patch):
    x = images.unflatten(3, (-1, patch)).unflatten(2, (-1, patch))
    return x.permute(0, 2, 4, 3, 5, 1).flatten(3).flatten(1, 2)
