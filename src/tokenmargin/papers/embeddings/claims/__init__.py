"""The theorems and lemmas of [E] as claims, one file for what is proved together."""
