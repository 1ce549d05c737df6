/** Elements of HTML and SVG, made by one call each. */

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element.
 *
 * `properties` are properties and attributes by name, and listeners by `on` and the event. Those of
 * null, undefined or false are left out, as are children of null.
 */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && !name.includes("-")) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** An SVG element with attributes. */
export function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** An SVG drawing of a size in pixels; `label` says what it shows, for screen readers. */
export function drawFigure(width, height, label) {
  return draw("svg", {
    width,
    height,
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": label,
    "font-family": "system-ui, sans-serif",
    "font-size": 12,
  });
}

/** A line of text in an SVG drawing. */
export function write(x, y, text, attributes = {}) {
  return draw("text", { x, y, ...attributes }, document.createTextNode(text));
}
