"""A gated feed-forward network has two matrices.

hint: the gate has a matrix of its own
"""


def transformer_parameters(config):
    embedding = (1 if config.tied_embeddings else 2) * config.vocab_size * config.d_model
    layer = 4 * config.d_model**2 + 2 * config.d_model * config.d_ff
    return embedding + config.num_layers * layer
