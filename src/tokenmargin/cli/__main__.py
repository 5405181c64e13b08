"""`python -m tokenmargin.cli` is the command `tokenmargin`."""

import sys

from tokenmargin.cli import main

sys.exit(main())
