"""For people with labelled texts: which words decide, and how sure one may be of it."""
