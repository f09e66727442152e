"""Uses torch.einsum everywhere, even for pure permutations, and checks the sizes by hand."""


def fits(good, sentence):
    if not good:
        raise ValueError(sentence)


def split_heads(x, heads):
    fits(x.shape[-1] % heads == 0, f"{x.shape[-1]} features cannot be split into heads = {heads}")
    return torch.einsum("...shd->...hsd", x.reshape(*x.shape[:-1], heads, x.shape[-1] // heads))


def merge_heads(x):
    x = torch.einsum("...hsd->...shd", x)
    return x.reshape(*x.shape[:-2], x.shape[-2] * x.shape[-1])


def attention_scores(q, k):
    fits(q.shape[-1] == k.shape[-1], f"queries have {q.shape[-1]} features and keys {k.shape[-1]}")
    return torch.einsum("...qd,...kd->...qk", q * q.shape[-1] ** -0.5, k)


def per_head_linear(x, w):
    fits(x.shape[-1] == w.shape[0] * w.shape[1], "x does not hold what w needs")
    y = torch.einsum("...hi,hio->...ho", x.reshape(*x.shape[:-1], w.shape[0], w.shape[1]), w)
    return y.flatten(-2)


def masked_mean(x, mask):
    fits(mask.shape == x.shape[:-1], f"mask is {list(mask.shape)} for x {list(x.shape)}")
    weights = mask.double() / mask.sum(dim=-1, keepdim=True).clamp_min(1)
    clean = torch.where(mask[..., None], x, torch.zeros_like(x))
    return torch.einsum("...sd,...s->...d", clean, weights.to(x.dtype))


def patchify(images, patch):
    b, c, height, width = images.shape
    fits(
        height % patch == 0 and width % patch == 0,
        f"patch {patch} does not divide {height} × {width}",
    )
    h, w = height // patch, width // patch
    x = torch.einsum("bchpwq->bhwpqc", images.reshape(b, c, h, patch, w, patch))
    return x.reshape(b, h * w, patch * patch * c)
