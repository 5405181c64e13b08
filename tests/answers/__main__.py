"""Write the ledger anew, in float64 as tests compute."""

import jax

from tests.answers.ledger import write

jax.config.update("jax_enable_x64", True)
write()
