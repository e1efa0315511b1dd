/* Tables wider than the screen are scrolled by keyboard, too: the theme wraps them, and this lets the wrap be reached. */
addEventListener("load", () => {
  for (const wrap of document.querySelectorAll(".md-typeset__scrollwrap")) {
    if (wrap.scrollWidth > wrap.clientWidth) wrap.tabIndex = 0
  }
})
