"""`python -m tokenmargin` is the command `tokenmargin`."""

import sys

from tokenmargin.cli import main

sys.exit(main())
