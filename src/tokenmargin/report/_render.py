"""A page from a template: jinja2, which escapes every text that goes in."""

from __future__ import annotations

import re
from base64 import b64encode
from functools import cache
from hashlib import sha256
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tokenmargin._atomic import HALVES
from tokenmargin.errors import visible


def render(template: str, **values: Any) -> str:
    """A template of `report/templates` with values filled in; a value that it names and is not given is an error."""
    return _environment().get_template(template).render(values) + "\n"  # jinja2 drops the newline that ends a file.


@cache
def _environment() -> Environment:
    environment = Environment(
        # The page of a fit scores texts by the same scripts that `tokenmargin export --js` writes.
        loader=ChoiceLoader(
            [PackageLoader("tokenmargin.report", "templates"), PackageLoader("tokenmargin.classify", "javascript")]
        ),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "base64": _base64,
        "breakable": _breakable,
        "file_size": _file_size,
        "policy_hash": _policy_hash,
        "visible": visible,
    }
    return environment


def _base64(content: bytes | str) -> str:
    """Base64 text for a data URI; none of its characters has a meaning in HTML."""
    return b64encode(content if isinstance(content, bytes) else content.encode(errors=HALVES)).decode()


def _breakable(name: str) -> Markup:
    """A name with places where a line may end, which names of classes often lack."""
    return Markup("<wbr>").join(re.split(r"(?<=[_./])|(?<=[a-z])(?=[A-Z])", visible(name)))


def _policy_hash(content: str) -> str:
    """Name by which a content-security policy allows an inline script or style: nothing else runs."""
    return f"sha256-{b64encode(sha256(content.encode(errors=HALVES)).digest()).decode()}"


def _file_size(content: str) -> str:
    n_bytes = len(content.encode(errors=HALVES))
    return f"{n_bytes / 1e6:.1f} MB" if n_bytes >= 1e6 else f"{max(1, round(n_bytes / 1e3))} kB"
