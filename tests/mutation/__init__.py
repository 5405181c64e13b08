"""Does a test notice when the code is changed? `make mutate` changes one thing at a time and runs what reaches it."""
