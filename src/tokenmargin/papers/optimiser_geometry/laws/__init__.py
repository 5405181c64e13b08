"""Laws of random instances for the claims of [O]."""
