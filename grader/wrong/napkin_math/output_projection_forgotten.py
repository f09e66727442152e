"""Attention has three matrices, without the output's.

hint: queries, keys, values, and the output
"""


def transformer_parameters(config):
    embedding = (1 if config.tied_embeddings else 2) * config.vocab_size * config.d_model
    layer = 3 * config.d_model**2 + (3 if config.gated_ffn else 2) * config.d_model * config.d_ff
    return embedding + config.num_layers * layer
