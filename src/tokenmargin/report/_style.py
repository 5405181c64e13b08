"""How the results page looks: one style sheet and one icon, both inline, so that the page asks for nothing."""

from __future__ import annotations

from base64 import b64encode

_ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#1f5fa8"/>'
    '<path d="M6 26 26 6" stroke="#fff" stroke-width="2.5"/><circle cx="10.5" cy="11" r="3.5" fill="#fff"/>'
    '<circle cx="21.5" cy="21" r="3.5" fill="#9ec9f5"/></svg>'
)

#: The favicon as a data URI; without one, browsers ask the server for /favicon.ico.
ICON_URI = "data:image/svg+xml;base64," + b64encode(_ICON.encode()).decode()

#: Colours are variables, so that the dark scheme is one block. Verdicts are worded as well as coloured.
STYLE = """
:root {
  color-scheme: light dark;
  --page: #f6f7f9; --card: #ffffff; --ink: #1b1f24; --soft: #59636e; --line: #dce0e5; --accent: #1f5fa8;
  --code: #eef1f4; --good: #11663a; --good-back: #dcf3e5; --bad: #a11620; --bad-back: #fde3e4;
  --open: #7a4a00; --open-back: #fbeccf; --calm: #4a5560; --calm-back: #e8ebef;
  --shade: rgb(0 0 0 / .22);
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #101418; --card: #181d23; --ink: #e4e8ec; --soft: #9aa5b1; --line: #2d353e; --accent: #84b9f0;
    --code: #232a32; --good: #7ddba3; --good-back: #12351f; --bad: #ff9ea3; --bad-back: #471a1e;
    --open: #f0c274; --open-back: #3d2d0d; --calm: #b6c0ca; --calm-back: #2a323a;
    --shade: rgb(0 0 0 / .75);
  }
}
*, *::before, *::after { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; scroll-behavior: smooth; }
@media (prefers-reduced-motion: reduce) { html { scroll-behavior: auto; } }
body {
  margin: 0; background: var(--page); color: var(--ink); overflow-wrap: break-word;
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
}
.page { max-width: 980px; margin: 0 auto; padding: 2rem 1rem 3rem; }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 .75rem; letter-spacing: -.01em; }
h2 { font-size: 1.3rem; line-height: 1.3; margin: 0; letter-spacing: -.005em; }
h3 { font-size: .95rem; margin: 1.75rem 0 .5rem; }
p { margin: .5rem 0; }
a { color: var(--accent); text-underline-offset: .15em; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
code, pre { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; font-size: .875em; }
pre {
  margin: .5rem 0; padding: .75rem .9rem; background: var(--code); border-radius: 6px;
  white-space: pre-wrap; overflow-wrap: anywhere;
}
pre code { font-size: 1em; }
.lead { max-width: 46rem; }
.soft { color: var(--soft); }
.note {
  margin: 1rem 0; padding: .7rem 1rem; color: var(--open); background: var(--open-back);
  border-left: 4px solid currentColor; border-radius: 6px;
}
.card {
  margin: 1.5rem 0; padding: 1.4rem 1.5rem; background: var(--card); border: 1px solid var(--line); border-radius: 10px;
}
.card > h2 + p { margin-top: .3rem; }
.tag {
  display: inline-block; padding: .05rem .5rem; border-radius: 1rem; font-size: .8125rem; font-weight: 600;
  color: var(--calm); background: var(--calm-back);
}
.tag.good { color: var(--good); background: var(--good-back); }
.tag.bad { color: var(--bad); background: var(--bad-back); }
.tag.open { color: var(--open); background: var(--open-back); }
td .tag { white-space: nowrap; }
.bad { color: var(--bad); }
.missing { color: var(--open); }
.picture { margin: 1rem 0; padding: .75rem; background: #ffffff; border: 1px solid var(--line); border-radius: 8px; }
.picture img { display: block; max-width: 100%; height: auto; margin: 0 auto; color: #1b1f24; }
/* A shadow at an edge says that there is more beyond it; the covers scroll with the table, the shadows do not. */
.scroll {
  overflow-x: auto; max-width: 100%; background-color: var(--card); background-repeat: no-repeat;
  background-image: linear-gradient(90deg, var(--card) 35%, transparent),
    linear-gradient(270deg, var(--card) 35%, transparent),
    radial-gradient(farthest-side at 0 50%, var(--shade), transparent),
    radial-gradient(farthest-side at 100% 50%, var(--shade), transparent);
  background-size: 2.5rem 100%, 2.5rem 100%, .8rem 100%, .8rem 100%;
  background-position: 0 0, 100% 0, 0 0, 100% 0; background-attachment: local, local, scroll, scroll;
}
table { border-collapse: collapse; width: 100%; font-size: .925rem; font-variant-numeric: tabular-nums; }
th, td { padding: .45rem .75rem .45rem 0; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
th:last-child, td:last-child { padding-right: 0; }
tbody tr:last-child > * { border-bottom: 0; }
thead th { color: var(--soft); font-size: .8125rem; font-weight: 600; white-space: nowrap; vertical-align: bottom; }
tbody th { font-weight: 500; }
.numbers tbody th { min-width: 9rem; }
.contents td:nth-child(5) { min-width: 9rem; }
.number { text-align: right; white-space: nowrap; padding-right: 1.25rem; }
.key { white-space: nowrap; }
.claims { list-style: none; margin: 0; padding: 0; }
.claims li { padding: .6rem 0 .6rem .9rem; border-left: 3px solid var(--line); }
.claims li + li { margin-top: .6rem; }
.claims p { margin: .2rem 0; }
details { margin-top: 1.25rem; }
summary { cursor: pointer; color: var(--accent); font-weight: 600; font-size: .95rem; }
.manifest { margin-top: .5rem; font-size: .875rem; }
.manifest tbody th { white-space: nowrap; color: var(--soft); width: 1%; padding-right: 1.5rem; }
.manifest td { overflow-wrap: anywhere; min-width: 9rem; }
footer { color: var(--soft); font-size: .875rem; }
@media (max-width: 600px) {
  .page { padding: 1.25rem .75rem 2rem; }
  h1 { font-size: 1.45rem; }
  h2 { font-size: 1.15rem; }
  .card { padding: 1rem .9rem; }
  .picture { padding: .35rem; }
  .numbers thead th { white-space: normal; }
  .number { padding-right: .75rem; }
  /* Five columns of contents do not fit: one block for each figure instead. */
  .contents thead { display: none; }
  .contents tr { display: flow-root; padding: .6rem 0; border-bottom: 1px solid var(--line); }
  .contents tr:last-child { border-bottom: 0; }
  .contents td { display: inline; padding: 0 .5rem 0 0; border: 0; }
  .contents td:nth-child(2), .contents td:nth-child(5) { display: block; }
  .contents td:nth-child(3), .contents td:nth-child(4), .contents td:nth-child(5) { color: var(--soft); }
}
@media print {
  body { background: none; }
  .card { border: 0; padding: 0; break-inside: auto; }
  .picture, tr { break-inside: avoid; }
}
"""
