"""Handles one entry of the batch; torch.vmap maps it over all leading dimensions."""


def over_leading(function, dims):
    """Map `function`, which takes tensors with `dims` dimensions, over all leading dimensions."""

    def mapped(*tensors):
        leading = tensors[0].dim() - dims
        f = function
        for _ in range(leading):
            f = torch.vmap(f)
        return f(*tensors)

    return mapped


def split_heads(x, heads):
    if (width := x.size(-1)) % heads:
        raise ValueError(f"{width} is no multiple of heads={heads}")
    return over_leading(lambda one: one.t().reshape(heads, width // heads, -1).mT, 2)(x)


def merge_heads(x):
    return over_leading(lambda one: torch.hstack(list(one)), 3)(x)


def attention_scores(q, k):
    if q.shape[:-2] + q.shape[-1:] != k.shape[:-2] + k.shape[-1:]:
        raise ValueError("q and k differ in more than their number")
    return over_leading(lambda queries, keys: queries.mm(keys.t()).div(math.sqrt(keys.size(1))), 2)(
        q, k
    )


def per_head_linear(x, w):
    if x.size(-1) != w.size(0) * w.size(1):
        raise ValueError("w does not fit x")
    return over_leading(
        lambda one: torch.bmm(one.reshape(w.size(0), 1, w.size(1)), w).flatten(), 1
    )(x)


def masked_mean(x, mask):
    if list(mask.shape) != list(x.shape[:-1]):
        raise ValueError("mask must have the shape of x without its features")

    if not mask.numel():
        return x.sum(-2)

    def one(rows, keep):
        kept = torch.where(keep[:, None], rows, 0.0)
        return kept.sum(0) / torch.maximum(keep.sum(), torch.ones_like(keep.sum()))

    return over_leading(one, 2)(x, mask)


def patchify(images, patch):
    if any(side % patch for side in images.shape[-2:]):
        raise ValueError(f"patch {patch}")

    def one(image):
        rows = image.permute(1, 2, 0).split(patch)
        return torch.stack([piece.reshape(-1) for row in rows for piece in row.split(patch, dim=1)])

    return torch.vmap(one)(images)
