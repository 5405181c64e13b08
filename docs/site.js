// What scrolls is reached by the keyboard too, and each bar beside code has a name of its own.
document$.subscribe(() => requestAnimationFrame(() => {
  for (const box of document.querySelectorAll(".md-typeset__scrollwrap")) if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
  document.querySelectorAll(".md-code__nav").forEach((bar, k) => bar.setAttribute("aria-label", `Code ${k + 1}`));
}));
