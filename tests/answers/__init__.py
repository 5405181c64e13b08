"""What proofs, certificates and verdicts answer on small problems, in a ledger: no number changes unseen.

Other tests say that the answers are right; this one that they are the ones that were looked at. Who means to change one
runs `python -m tests.answers`, and the change of `tests/answers/ledger.json` is read in review.
"""
