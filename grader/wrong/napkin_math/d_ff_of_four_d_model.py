"""The feed-forward network is taken for 4 · d_model wide.

hint: its width is d_ff
"""


def transformer_parameters(config):
    embedding = (1 if config.tied_embeddings else 2) * config.vocab_size * config.d_model
    layer = 4 * config.d_model**2 + (3 if config.gated_ffn else 2) * 4 * config.d_model**2
    return embedding + config.num_layers * layer
