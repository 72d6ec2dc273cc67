// What a person sees of the page without scrolling, and where they would click.
(() => {
  const shown = (box) => box.width > 0 && box.height > 0 && box.left >= 0 && box.top >= 0 && box.right <= innerWidth + 1 && box.bottom <= innerHeight;
  const onTop = (box, one) => {
    const hit = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
    return hit !== null && (hit === one || hit.contains(one) || one.contains(hit));
  };
  const flat = (text) => text.replace(/\s+/g, " ").trim();
  const seen = () => {
    const words = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      if (!node.textContent.trim() || node.parentElement.closest("script, style, option, title")) continue;
      const range = document.createRange();
      range.selectNodeContents(node);
      const boxes = [...range.getClientRects()];
      if (boxes.length && boxes.every((box) => shown(box) && onTop(box, node.parentElement))) words.push(node.textContent);
    }
    return flat(words.join(" "));
  };
  const named = (one) => flat(one.matches("input, select") ? one.closest("label").textContent : one.textContent);
  const target = (text) => {
    for (const one of document.querySelectorAll("a[href], input, select")) {
      const box = [...one.getClientRects()].find((part) => shown(part) && onTop(part, one));
      if (box && named(one).includes(text)) return { x: box.left + box.width / 2, y: box.top + box.height / 2, to: one.href ?? null };
    }
    return null;
  };
  globalThis.person = { seen, target, focused: () => named(document.activeElement) };
})();
