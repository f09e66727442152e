"""One layer is counted.

hint: every layer has matrices of its own
"""


def transformer_parameters(config):
    embedding = (1 if config.tied_embeddings else 2) * config.vocab_size * config.d_model
    return embedding + 4 * config.d_model**2 + (3 if config.gated_ffn else 2) * config.d_model * config.d_ff
