// The frame of the picture: where seconds and requests left lie in pixels, and the lines and numbers along them.

const namespace = "http://www.w3.org/2000/svg";

// draw adds an SVG element to a parent.
export function draw(name, parent, attributes = {}) {
  const element = document.createElementNS(namespace, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  parent.append(element);
  return element;
}

export class Axes {
  left = 58; // of the plot, in pixels; room for the words beside it
  top = 34;
  #width = 0;
  #start = 0;
  #span = 0;
  #most = 1;

  constructor(svg) {
    this.svg = svg;
    const clip = draw("clipPath", draw("defs", svg), { id: "plot" });
    this.window = draw("rect", clip, { y: 0 });
    this.hatch(svg);
    this.levels = draw("g", svg, { class: "levels" });
    this.ticks = draw("g", svg, { class: "ticks" });
    // The clip stays still while what it shows moves, hence two groups.
    this.moving = draw("g", draw("g", svg, { "clip-path": "url(#plot)" }));
    this.still = draw("g", svg);
    this.fit();
  }

  hatch(svg) {
    const pattern = draw("pattern", svg.querySelector("defs"), { id: "hatch", width: 8, height: 8,
      patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" });
    draw("rect", pattern, { class: "hatch", width: 3, height: 8 });
  }

  // fit takes the size that the style sheet gave the picture; one unit is one pixel, so text keeps its size.
  fit() {
    const { clientWidth: width, clientHeight: height } = this.svg;
    if (width === this.#width && height === this.height) return false;
    this.#width = width;
    this.height = height;
    this.right = width - 14;
    this.bottom = height - 24;
    this.zero = Math.round(this.top + (this.bottom - this.top) * 0.6);
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    // A dot half out of the plot is still whole.
    for (const [key, value] of Object.entries({ x: this.left - 7, width: this.right - this.left + 14, height })) {
      this.window.setAttribute(key, value);
    }
    this.#span = 0; // so that the next look draws
    return true;
  }

  // look shows `span` seconds from `start` on, and tells whether the scale has changed.
  look(start, span) {
    const rescaled = span !== this.#span;
    if (!rescaled && start === this.#start) return false;
    this.#start = start;
    this.#span = span;
    this.moving.setAttribute("transform", `translate(${(this.left - this.x(start)).toFixed(1)} 0)`);
    this.#drawTicks();
    return rescaled;
  }

  // scale makes room for `limit` requests left.
  scale(limit) {
    this.#most = Math.max(1, limit ?? 1);
    this.#drawLevels(limit);
  }

  x(seconds) {
    return (seconds * (this.right - this.left)) / (this.#span || 1);
  }

  y(requests) {
    return this.zero - (Math.min(requests, this.#most) / this.#most) * (this.zero - this.top);
  }

  holds(seconds) {
    return seconds >= this.#start && seconds <= this.#start + this.#span;
  }

  // yieldTo hides the number that would stand where another word stands.
  yieldTo(x) {
    for (const text of this.ticks.querySelectorAll("text")) {
      text.style.opacity = Math.abs(text.getAttribute("x") - x) < 34 ? 0 : 1;
    }
  }

  #drawLevels(limit) {
    this.levels.replaceChildren();
    const middle = limit >= 4 ? [Math.round(limit / 2)] : [];
    const numbers = limit === null ? [0] : [0, ...middle, limit];
    for (const number of numbers) {
      const y = this.y(number);
      draw("path", this.levels, { class: number ? "" : "zero", d: `M${this.left} ${y}H${this.right}` });
      if (limit !== null) this.#word(y + 4, number === limit && limit < 1000 ? `${number} left` : number);
    }
    if (limit === null) this.#word(this.zero - 10, "allowed");
    this.#word(this.zero + 20, "refused");
  }

  #drawTicks() {
    this.ticks.replaceChildren();
    const roomy = (this.right - this.left) / this.#span; // pixels a second
    const step = [1, 2, 5, 10, 20].find((s) => s * roomy >= 44) ?? 30;
    const first = Math.max(0, Math.ceil(this.#start / step) * step);
    for (let t = first; t <= this.#start + this.#span; t += step) {
      const x = this.x(t - this.#start) + this.left;
      draw("path", this.ticks, { d: `M${x} ${this.top}V${this.bottom}` });
      draw("text", this.ticks, { x, y: this.bottom + 17, "text-anchor": "middle" }).textContent = `${t} s`;
    }
  }

  #word(y, text) {
    draw("text", this.levels, { x: this.left - 10, y, "text-anchor": "end" }).textContent = text;
  }
}
