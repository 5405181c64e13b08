"""Templates: every text that goes in is escaped, and a value that is missing is an error."""

import re
from pathlib import Path

import pytest
from jinja2 import UndefinedError

import tokenmargin.report
from tokenmargin.report import _render
from tokenmargin.report._render import render

TEMPLATES = Path(tokenmargin.report.__file__).parent / "templates"
EVIL = "\"><script>alert('x')</script>"
INERT = "&#34;&gt;&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;"


def made_of(source: str, **values: object) -> str:
    return _render._environment().from_string(source).render(values)


def test_text_is_inert_in_elements_attributes_macros_and_calls():
    pieces = '{% from "_pieces.html" import linked, table, tag %}'
    assert made_of("<p>{{ x }}</p>", x=EVIL) == f"<p>{INERT}</p>"
    assert made_of('<p title="{{ x }}">', x=EVIL) == f'<p title="{INERT}">'
    assert made_of(pieces + "{{ tag(x) }}", x=EVIL) == f'<span class="tag">{INERT}</span>'
    link = f'{INERT}<a class="word" href="#{INERT}">{INERT}</a>'
    assert made_of(pieces + "{{ linked(x) }}", x=[(EVIL, ""), (EVIL, EVIL)]) == link
    shown = made_of(pieces + '{% call table("k", x, ((x, "words"),)) %}<tr><td>{{ x }}</td></tr>{% endcall %}', x=EVIL)
    assert "<script" not in shown
    assert shown.count(INERT) == 3


def test_no_template_turns_escaping_off():
    files = sorted(TEMPLATES.glob("*.html"))
    assert len(files) >= 4
    for file in files:
        assert not re.search(r"\|\s*safe|autoescape|Markup", file.read_text()), file.name


def test_a_value_that_is_not_given_is_an_error():
    with pytest.raises(UndefinedError, match="n_figures"):
        render("results.html", missing=[], presets=[], figures=[], counts={})


@pytest.mark.parametrize(
    ("words", "look"),
    [("holds", "tag good"), ("fails", "tag bad"), ("not comparable", "tag open"), ("reported", "tag")],
)
def test_the_colour_of_a_tag_follows_its_words(words, look):
    shown = made_of('{% from "_pieces.html" import tag %}{{ tag(words) }}', words=words)
    assert shown == f'<span class="{look}">{words}</span>'


@pytest.mark.parametrize(
    ("content", "size"), [("", "1 kB"), ("é" * 700, "1 kB"), ("x" * 2600, "3 kB"), ("x" * 1_250_000, "1.2 MB")]
)
def test_the_size_of_a_file_counts_bytes(content, size):
    assert made_of("{{ x | file_size }}", x=content) == size


def test_data_uris_are_base64_of_bytes_and_of_text():
    assert made_of("{{ x | base64 }}", x=b"\xff\xfe\xfd") == "//79"
    assert made_of("{{ x | base64 }}", x="<svg>") == "PHN2Zz4="
