"""[Example] Two tokens: a paper that does not exist, with one claim, one law, one figure and one erratum."""

from tokenmargin.theory import Paper

PAPER = Paper(
    key="two_tokens",
    cited_as="Example",
    title="Two Tokens, an Example",
    authors=("A. N. Author",),
    year=2026,
    bibtex="@misc{Example,\n  title  = {Two Tokens, an Example},\n  author = {Author, A. N.},\n  year   = {2026},\n}\n",
    package=__name__,
    claims=("claims",),
    laws=("laws",),
    figures=("figures",),
    errata_file="errata.toml",
)
