"""Tensors that need no gradient are left out."""


def unique_bytes(tensors):
    trained = [t for t in tensors if t.requires_grad]
    by_storage = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in trained}
    return sum(by_storage.values())
