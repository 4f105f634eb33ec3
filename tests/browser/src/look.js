// Reads the page as it is drawn. The contrast is that of WCAG 2.2, sections 1.4.3 and
// 1.4.11: 4.5, and 3 for large text.
(() => {
  const faults = [];
  const name = (element) => `${element.tagName.toLowerCase()} "${(element.textContent || "").trim().slice(0, 40)}"`;
  const parse = (color) => {
    const numbers = color.match(/[\d.]+/g).map(Number);
    return { rgb: numbers.slice(0, 3), alpha: numbers.length > 3 ? numbers[3] : 1 };
  };
  const over = (front, alpha, back) => front.map((value, at) => value * alpha + back[at] * (1 - alpha));
  const background = (element) => {
    if (!element) return [255, 255, 255];
    const color = parse(getComputedStyle(element).backgroundColor);
    return color.alpha === 1 ? color.rgb : over(color.rgb, color.alpha, background(element.parentElement));
  };
  const brightness = (rgb) => {
    const [red, green, blue] = rgb.map((value) => {
      const part = value / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const contrast = (one, other) => {
    const [dark, light] = [brightness(one), brightness(other)].sort((a, b) => a - b);
    return (light + 0.05) / (dark + 0.05);
  };

  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width) faults.push(`${document.documentElement.scrollWidth} of ${width} pixels wide`);
  for (const element of document.body.querySelectorAll("*")) {
    const box = element.getBoundingClientRect();
    if (box.right > width + 0.5 || box.left < -0.5) faults.push(`beyond the window: ${name(element)}`);
    if (element.scrollWidth > element.clientWidth + 1 && getComputedStyle(element).display !== "inline") {
      faults.push(`its content is wider: ${name(element)}`);
    }
    if (parseFloat(getComputedStyle(element).opacity) !== 1) faults.push(`transparent: ${name(element)}`);
  }

  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let count = 0;
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || !element.checkVisibility()) continue;
    count += 1;
    const style = getComputedStyle(element);
    const size = parseFloat(style.fontSize);
    const back = background(element);
    const color = parse(style.color);
    const found = contrast(over(color.rgb, color.alpha, back), back);
    const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (found < (isLarge ? 3 : 4.5)) faults.push(`contrast ${found.toFixed(2)}: ${name(element)}`);
    if (size < 12) faults.push(`${size} pixels high: ${name(element)}`);
  }
  if (count < 5) faults.push(`only ${count} texts`);

  if (document.documentElement.lang !== "en") faults.push("no language");
  if (!document.title) faults.push("no title");
  if (!document.querySelector("main")) faults.push("no main part");
  let level = 0;
  for (const heading of document.querySelectorAll("h1, h2, h3, h4")) {
    const next = Number(heading.tagName[1]);
    if (next > level + 1 || (next === 1 && level > 0)) faults.push(`out of order: ${name(heading)}`);
    level = next;
  }
  if (level === 0) faults.push("no heading");
  for (const field of document.querySelectorAll("input:not([type=hidden]), select, progress")) {
    const isNamed = (field.labels && field.labels.length > 0) || field.getAttribute("aria-label");
    if (!isNamed) faults.push(`without a label: ${field.outerHTML}`);
  }
  for (const link of document.querySelectorAll("a, button")) {
    if (!link.textContent.trim()) faults.push(`without a text: ${link.outerHTML}`);
    // WCAG 2.2, section 2.5.8: a finger needs 24 pixels, except within a sentence.
    const box = link.getBoundingClientRect();
    if (box.height < 24 && getComputedStyle(link).display !== "inline") faults.push(`too small: ${link.outerHTML}`);
  }
  if (document.scripts.length > 0) faults.push("scripts");

  return {
    title: document.title,
    text: document.body.innerText,
    dom: document.documentElement.outerHTML,
    brightness: brightness(background(document.body)),
    faults,
  };
})()
