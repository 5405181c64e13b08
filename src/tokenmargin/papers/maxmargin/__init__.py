"""[M] Max-margin token selection in attention mechanism: claims, figures, laws."""
