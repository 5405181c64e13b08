"""The checker that executes type annotations in tests: beartype, with an int allowed where a float is meant."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
