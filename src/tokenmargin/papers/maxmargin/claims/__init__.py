"""The theorems and lemmas of [M] as claims, one file for what is proved together."""
