# Right solutions of einops in other styles; see grader/solutions/fragments.py.

# [loops_and_stack] Loops over slices, joins them with stack and cat, and takes means of boolean
# selections.
def split_heads(x, heads):
    if x.shape[-1] % heads != 0:
        raise ValueError(f"cannot make {heads} heads of {x.shape[-1]} features")
    return torch.stack(x.chunk(heads, dim=-1), dim=-3)


def attention_scores(q, k):
    if q.shape[-1] != k.shape[-1]:
        raise ValueError("q and k must have as many features")
    root = math.sqrt(k.shape[-1])
    rows = [(query.unsqueeze(-2) * k).sum(dim=-1) / root for query in q.unbind(dim=-2)]
    return torch.stack(rows, dim=-2)


def per_head_linear(x, w):
    if x.shape[-1] != w.shape[0] * w.shape[1]:
        raise ValueError("x has the wrong number of features for w")
    parts = x.split(w.shape[1], dim=-1)
    return torch.cat([part @ matrix for part, matrix in zip(parts, w)], dim=-1)


def masked_mean(x, mask):
    if x.dim() != mask.dim() + 1:
        raise ValueError("mask must have one dimension less than x")
    if x.dim() > 2:
        if len(x) != len(mask):
            raise ValueError(f"mask has {len(mask)} entries where x has {len(x)}")
        means = [masked_mean(one, keep) for one, keep in zip(x, mask)]
        return torch.stack(means) if means else x.sum(dim=-2)
    kept = x[mask]
    return kept.mean(dim=0) if len(kept) else x.new_zeros(x.shape[-1]) * kept.sum()


def patchify(images, patch):
    height, width = images.shape[2], images.shape[3]
    if height % patch or width % patch:
        raise ValueError(f"a patch of {patch} does not fit into {height} × {width}")
    patches = []
    for top in range(0, height, patch):
        for left in range(0, width, patch):
            piece = images[:, :, top : top + patch, left : left + patch]
            patches.append(piece.movedim(1, -1).reshape(len(images), -1))
    return torch.stack(patches, dim=1)


# [one_at_a_time] Computes one entry of the batch; torch.vmap maps it over all leading dimensions.
def over_leading(function, dims):
    """Map `function`, which takes tensors with `dims` dimensions, over all leading dimensions."""

    def mapped(*tensors):
        leading = tensors[0].dim() - dims
        f = function
        for _ in range(leading):
            f = torch.vmap(f)
        return f(*tensors)

    return mapped


def attention_scores(q, k):
    if q.shape[:-2] + q.shape[-1:] != k.shape[:-2] + k.shape[-1:]:
        raise ValueError("q and k differ in more than their number")
    root = math.sqrt(k.size(-1))
    return over_leading(lambda queries, keys: queries.mm(keys.t()).div(root), 2)(q, k)


def per_head_linear(x, w):
    if x.size(-1) != w.size(0) * w.size(1):
        raise ValueError("w does not fit x")
    parts = w.size(0), 1, w.size(1)
    return over_leading(lambda one: torch.bmm(one.reshape(parts), w).flatten(), 1)(x)


def masked_mean(x, mask):
    if list(mask.shape) != list(x.shape[:-1]):
        raise ValueError("mask must have the shape of x without its features")

    if not mask.numel():
        return x.sum(-2)

    def one(rows, keep):
        kept = torch.where(keep[:, None], rows, 0.0)
        return kept.sum(0) / torch.maximum(keep.sum(), torch.ones_like(keep.sum()))

    return over_leading(one, 2)(x, mask)


# [view_and_transpose] Plain torch, as in many attention layers: unflatten, transpose, reshape and
# matmul.
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
        raise ValueError(f"mask {list(mask.shape)} does not fit x {list(x.shape)}")
    count = mask.sum(-1, keepdim=True)
    return (x.masked_fill(~mask[..., None], 0.0).sum(-2) / count).masked_fill(count == 0, 0.0)


def patchify(images, patch):
    x = images.unflatten(3, (-1, patch)).unflatten(2, (-1, patch))
    return x.permute(0, 2, 4, 3, 5, 1).flatten(3).flatten(1, 2)
