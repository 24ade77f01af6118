"""A real browser: where what is drawn comes out, and what is wrong with it to the eye."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

CHROMIUM: Final = shutil.which("chromium") or shutil.which("chromium-browser")

THEMES: Final = {"light": ("#ffffff", "rgba(0,0,0,.87)"), "dark": ("#111111", "#ffffff")}
"""JupyterLab's two themes: the colour of a cell's output, and of words in it."""

FAULTS: Final = r"""
() => {
  const cell = document.querySelector("#output").getBoundingClientRect(), faults = [];
  const box = (of) => of.getBoundingClientRect();
  const named = (of) => `<${of.tagName}> ${(of.textContent || "").trim().slice(0, 40)}`;
  const seen = [...document.querySelectorAll("#output *")].filter(
    (e) => !["TITLE", "title", "defs", "marker"].includes(e.tagName) && box(e).width > 0
      && e.checkVisibility() // not what is folded away
      && !e.closest("defs"));
  for (const e of seen)
    if (box(e).right > cell.right + 1 || box(e).left < cell.left - 1)
      faults.push(`wider than the cell by ${Math.round(box(e).right - cell.right)}: ${named(e)}`);
  for (const svg of document.querySelectorAll("#output svg"))
    for (const e of svg.querySelectorAll("text, rect, polygon, path, circle, line")) {
      const [a, b] = [box(e), box(svg)];
      if (e.closest("defs") || a.width + a.height === 0) continue; // what is yet to appear
      if (a.left < b.left - 1 || a.right > b.right + 1
          || a.top < b.top - 1 || a.bottom > b.bottom + 1)
        faults.push(`clipped: ${named(e)}`);
    }
  const words = seen.filter((e) =>
    [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()));
  // a line of text has room above and below its letters, which may touch another's
  const letters = (e) => { const b = box(e), less = b.height * 0.2;
    return {left: b.left + 1, right: b.right - 1, top: b.top + less, bottom: b.bottom - less}; };
  const boxes = words.map(letters);
  for (let i = 0; i < words.length; i++)
    for (let j = i + 1; j < words.length; j++) {
      const [a, b] = [boxes[i], boxes[j]];
      if (words[i].contains(words[j]) || words[j].contains(words[i])) continue;
      if (a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)
        faults.push(`overlapping: ${named(words[i])} and ${named(words[j])}`);
    }
  for (const e of words) {
    if (e.closest("svg, pre, code")) continue;
    for (const n of [...e.childNodes].filter((n) => n.nodeType === 3))
      for (const word of n.data.matchAll(/(?<!\S)[^\s-]{2,24}(?!\S)/g)) { // a longer one may break
        const range = document.createRange();
        range.setStart(n, word.index);
        range.setEnd(n, word.index + word[0].length);
        if (new Set([...range.getClientRects()].map((b) => Math.round(b.top))).size > 1)
          faults.push(`broken: ${word[0]} in ${named(e)}`);
      }
  }
  const parsed = (colour, opacity = 1) => {
    const c = (colour.match(/[\d.]+/g) || []).map(Number), alpha = (c[3] ?? 1) * opacity;
    return c.length < 3 || alpha === 0 ? null : [c[0], c[1], c[2], alpha]; };
  const fill = (style) => parsed(style.fill, style.fillOpacity);
  const over = (front, back) => { const a = front[3] ?? 1;
    return [0, 1, 2].map((i) => front[i] * a + back[i] * (1 - a)); };
  const light = (c) => { const [r, g, b] = c.map((v) => { v /= 255;
      return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const page = parsed(getComputedStyle(document.body).backgroundColor);
  for (const e of words) {
    if (e.closest("[aria-hidden]")) continue;
    e.scrollIntoView({block: "center"});
    const b = box(e), style = getComputedStyle(e), drawn = e.ownerSVGElement;
    const under = document.elementsFromPoint((b.left + b.right) / 2, (b.top + b.bottom) / 2)
      .filter((o) => (o !== e || !drawn) && o.tagName !== "text" && o.tagName !== "tspan")
      .filter((o) => o === e || !e.contains(o)) // a mark within a line has a colour of its own
      .map((o) => [o.ownerSVGElement, getComputedStyle(o)])
      .map(([drawn, style]) => drawn ? fill(style) : parsed(style.backgroundColor))
      .filter(Boolean);
    let back = page;
    for (const c of under.reverse()) back = over(c, back);
    const front = over((drawn ? fill(style) : parsed(style.color)) || [0, 0, 0], back);
    const [l, d] = [light(front), light(back)].sort((x, y) => y - x);
    const contrast = (l + 0.05) / (d + 0.05);
    if (contrast < 4.5) faults.push(`contrast of ${contrast.toFixed(1)}: ${named(e)}`);
  }
  return [...new Set(faults)];
}
"""


NARROW_CELL: Final = 348
"""The width of a cell's output in JupyterLab on a page of 500 pixels."""

TYPE_SIZES: Final = """
() => [...document.querySelectorAll("#output svg text")].map((text) => {
  const {a, b} = text.getScreenCTM(), size = parseFloat(getComputedStyle(text).fontSize);
  return size * Math.hypot(a, b); })
"""


class Browser:
    """A page of a real browser, in which HTML stands as in a notebook's output."""

    def __init__(self, page: Any) -> None:
        self.page = page

    def show(self, html: str, width: int = 900, theme: str = "light") -> None:
        """Draw a cell's output, in a cell so many pixels wide."""
        back, ink = THEMES[theme]
        self.page.set_viewport_size({"width": width, "height": 1000})
        self.page.set_content(
            f"<!doctype html><body style='margin:0;background:{back};color:{ink};font:14px/1.4 "
            f"system-ui,sans-serif'><div id=output style='margin:8px'>{html}</div></body>"
        )

    def faults(self, html: str, width: int = 900, theme: str = "light") -> list[str]:
        """Return what is clipped, overlaps, is wider than the cell, or is hard to read."""
        self.show(html, width, theme)
        found: list[str] = self.page.evaluate(FAULTS)
        return found

    def smallest_type(self, html: str) -> float:
        """Return the size of the smallest words in a narrow cell's pictures, in pixels."""
        self.show(html, NARROW_CELL + 16)
        return float(min(self.page.evaluate(TYPE_SIZES)))

    def picture(self, html: str, path: str, width: int = 900, theme: str = "light") -> None:
        """Write how it looks into a file."""
        self.show(html, width, theme)
        self.page.locator("#output").screenshot(path=path)


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser, until the block ends; a test that needs one is skipped where there is none."""
    if CHROMIUM is None:
        pytest.skip("there is no chromium here, so nothing is looked at in a browser")
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield Browser(chromium.new_page())
        chromium.close()
