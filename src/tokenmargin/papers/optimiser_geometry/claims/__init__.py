"""The claims of [O]."""
