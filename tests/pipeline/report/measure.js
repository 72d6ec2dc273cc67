// What a person would see: is the page wider than the screen, is anything cut off, what does each section show?
(() => {
  const wide = document.documentElement.clientWidth;
  const name = (one) => `${one.tagName.toLowerCase()}.${one.getAttribute("class") ?? ""} "${(one.textContent ?? "").trim().slice(0, 40)}"`;
  const rgb = (text) => text.match(/[\d.]+/g).map(Number);
  const light = (text) => {
    const [r, g, b] = rgb(text).slice(0, 3).map((v) => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (one) => {
    for (let at = one; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (rgb(colour)[3] !== 0) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const overflows = [], cut = [], pale = [], outside = [];
  for (const one of document.body.querySelectorAll("*")) {
    const box = one.getBoundingClientRect();
    if (box.width === 0 || box.height === 0) continue;
    const scrolled = one.parentElement.closest(".scroll");
    if (!scrolled && (box.right > wide + 1 || box.left < -1)) overflows.push(name(one));
    const style = getComputedStyle(one);
    if (style.overflowX === "hidden" && one.scrollWidth > one.clientWidth + 1) cut.push(name(one));
    const drawing = one.closest("svg");
    if (drawing && one.tagName === "text") {
      const frame = drawing.getBoundingClientRect();
      if (box.left < frame.left - 2 || box.right > frame.right + 2 || box.bottom > frame.bottom + 2) outside.push(name(one));
    }
    const speaks = [...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (speaks && one.tagName !== "title") {
      const ink = drawing ? style.fill : style.color;
      const [high, low] = [light(ink), light(ground(one))].sort((a, b) => b - a);
      if ((high + 0.05) / (low + 0.05) < 4.5) pale.push(name(one));
    }
  }
  const sections = {};
  for (const one of document.querySelectorAll("main > section")) {
    sections[one.id] = {
      text: one.innerText,
      rows: one.querySelectorAll("tbody tr").length,
      cards: one.querySelectorAll(".card").length,
      shapes: one.querySelectorAll("polyline, polygon, path, circle, rect:not([height='0']):not([height='0.0'])").length,
      height: one.getBoundingClientRect().height,
    };
  }
  return JSON.stringify({
    width: wide, page: document.documentElement.scrollWidth, dark: matchMedia("(prefers-color-scheme: dark)").matches,
    scrolled: [...document.querySelectorAll(".scroll")].filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.closest("section").id),
    overflows, cut, pale, outside, sections, requests: [
      ...performance.getEntriesByType("resource").map((one) => one.name),
      ...[...document.querySelectorAll("[src], link[href], use, image")].map(name),
    ],
    ground: getComputedStyle(document.body).backgroundColor,
  });
})()
