"""[E] Attention with trained embeddings provably selects important tokens: claims, figures, laws."""
