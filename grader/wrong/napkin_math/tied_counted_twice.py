"""Tied embeddings are counted twice.

hint: tied means one matrix in two places
"""


def transformer_parameters(config):
    embedding = 2 * config.vocab_size * config.d_model
    layer = 4 * config.d_model**2 + (3 if config.gated_ffn else 2) * config.d_model * config.d_ff
    return embedding + config.num_layers * layer
