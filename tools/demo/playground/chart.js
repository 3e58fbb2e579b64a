// The picture: requests as dots on a time axis, the requests left as a line, and the time until the gate opens again.
//
//   limit ─ ┌──●        allowed: on the line, at the height of what it left behind
//           │   ●──
//       0 ──┴──────●──▒▒▒▒▒▒▒▒▒┆   the gate is closed until the dashed line
//   refused        ×
//                  ×               refused: below the line, those of one moment in a column
//
// Seconds become pixels in `#place` and nowhere else; a frame only moves the finished picture to the left.

import { Axes, draw } from "./axes.js";

export const shapes = {
  allowed: "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0",
  refused: "M-4.5-4.5L4.5 4.5M4.5-4.5L-4.5 4.5",
  failed: "M0-5.5L5.5 4.5H-5.5Z",
};

const column = 11; // pixels: requests closer than this are of one moment and share a column
const pitch = 13; // pixels between the marks of a column that has room
const spans = [5, 12, 20, 30, 60]; // seconds that the axis may show

export class Chart {
  #series = null;
  #dots = new Map(); // from a dot to the element that shows it
  #stale = true; // something has come, or the size has changed, since the last #place

  constructor(svg) {
    this.axes = new Axes(svg);
    const { moving, still } = this.axes;
    this.area = draw("path", moving, { class: "area" });
    this.closed = draw("path", moving, { id: "closed", class: "closed" });
    this.line = draw("path", moving, { id: "level", class: "level" });
    this.held = draw("path", moving, { class: "level held" });
    this.flag = draw("path", moving, { class: "flag" });
    this.cloud = draw("g", moving, { id: "dots" });
    this.now = draw("path", moving, { class: "now" });
    this.flagText = draw("text", still, { class: "flag-text" });
    this.nowText = draw("text", still, { class: "now-text", "text-anchor": "middle" });
    this.nowText.textContent = "now";
    new ResizeObserver(() => { this.#stale = this.axes.fit() || this.#stale; this.frame(); }).observe(svg);
  }

  show(series) {
    this.#series = series;
    this.#dots.clear();
    this.cloud.replaceChildren();
    this.changed();
  }

  changed() {
    this.#stale = true;
  }

  // frame draws the moment `now` and tells whether the next moment will look different.
  frame(now = performance.now() / 1000, running = false) {
    if (!this.#series) return false;
    const { axes } = this;
    const { dots, gate, origin } = this.#series;

    const newest = Math.max(dots.at(-1)?.at ?? origin, running ? now : origin, soon(gate, now)) - origin;
    const span = spans.find((s) => newest <= s * 0.9) ?? spans.at(-1);
    const start = Math.max(0, newest - span * 0.9) - span * 0.03; // a little air before the first dot
    this.#stale = axes.look(start, span) || this.#stale;
    if (this.#stale) this.#place();

    const x = axes.x(now - origin);
    const live = dots.length > 0 || running;
    const visible = live && axes.holds(now - origin);
    this.now.setAttribute("d", visible ? `M${x} ${axes.top}V${axes.bottom}` : "");
    this.nowText.setAttribute("x", x - axes.x(start) + axes.left);
    this.nowText.setAttribute("y", axes.bottom + 17);
    this.nowText.style.display = visible ? "" : "none";
    axes.yieldTo(visible ? x - axes.x(start) + axes.left : -Infinity);
    this.held.setAttribute("d", this.#heldLine(now));
    this.#flagAt(now, start);
    return visible || running || (gate !== null && gate.until > now);
  }

  // #place puts every dot, the line and the gate where the present scale wants them.
  #place() {
    this.#stale = false;
    const { axes } = this;
    const { dots, closed, origin, limit } = this.#series;
    axes.scale(limit);

    const columns = { up: [], down: [] };
    const shown = new Set(dots);
    for (const [dot, element] of this.#dots) if (!shown.has(dot)) { element.remove(); this.#dots.delete(dot); }
    for (const dot of dots) {
      const x = axes.x(dot.at - origin);
      const onLine = dot.outcome === "allowed" && dot.remaining !== null;
      if (onLine) { this.#element(dot, x, axes.y(dot.remaining)); continue; }
      const side = dot.outcome === "allowed" ? columns.up : columns.down;
      if (side.length === 0 || x - side.at(-1).x >= column) side.push({ x, dots: [] });
      side.at(-1).dots.push(dot);
    }
    this.#stack(columns.up, -1, axes.zero - axes.top);
    this.#stack(columns.down, 1, axes.bottom - axes.zero);

    const line = this.#levelLine();
    this.line.setAttribute("d", line.path);
    this.area.setAttribute("d", line.path && `${line.path}V${axes.zero}H${line.from}Z`);
    this.closed.setAttribute("d", closed.map(({ from, until }) =>
      `M${axes.x(from - origin)} ${axes.top}H${axes.x(Math.min(until, from + 3600) - origin)}V${axes.zero}H${axes.x(from - origin)}Z`).join(""));
  }

  // The refused hang down from the zero line; the allowed stand on it where no header says how high they belong.
  // When a column is too long all marks become smaller and closer, so that lengths still compare as counts.
  #stack(columns, way, room) {
    const longest = Math.max(...columns.map(({ dots }) => dots.length));
    const step = Math.min(pitch, (room - 16) / longest);
    const size = Math.max(0.5, step / pitch);
    for (const { x, dots } of columns) {
      dots.forEach((dot, i) => this.#element(dot, x, this.axes.zero + way * (11 + i * step), size));
    }
  }

  #element(dot, x, y, size = 1) {
    let element = this.#dots.get(dot);
    if (!element) {
      element = draw("path", this.cloud, { class: `dot ${dot.outcome}`, d: shapes[dot.outcome],
        "data-n": dot.n, "data-outcome": dot.outcome, "data-status": dot.status,
        "data-remaining": dot.remaining ?? "", "data-seconds": (dot.at - this.#series.origin).toFixed(3) });
      draw("title", element).textContent = `${dot.n}: ${dot.outcome}, status ${dot.status}`;
      this.#dots.set(dot, element);
    }
    element.setAttribute("transform", `translate(${x.toFixed(1)} ${y.toFixed(1)}) scale(${size.toFixed(2)})`);
  }

  // What a response said holds until the next one: between them the line is level, and nothing is guessed.
  #levelLine() {
    const { axes } = this;
    const { dots, origin } = this.#series;
    let path = "", from = 0;
    for (const { at, remaining } of dots) {
      if (remaining === null) continue;
      const x = axes.x(at - origin).toFixed(1), y = axes.y(remaining).toFixed(1);
      if (!path) from = x;
      path += path ? `H${x}V${y}` : `M${x} ${y}`;
    }
    return { path, from };
  }

  #heldLine(now) {
    const { axes } = this;
    const { dots, origin } = this.#series;
    const last = dots.findLast((dot) => dot.remaining !== null);
    return last ? `M${axes.x(last.at - origin)} ${axes.y(last.remaining)}H${axes.x(now - origin)}` : "";
  }

  #flagAt(now, start) {
    const { axes } = this;
    const { gate, origin } = this.#series;
    this.flagText.textContent = gate ? (gate.until > now ? `closed for ${clock(gate.until - now)}` : "open again") : "";
    this.flag.setAttribute("d", "");
    if (!gate) return;
    const x = axes.x(gate.until - origin);
    this.flag.setAttribute("d", `M${x} ${axes.top - 6}V${axes.zero}`);
    const half = this.flagText.getComputedTextLength() / 2;
    const middle = x - axes.x(start) + axes.left;
    this.flagText.setAttribute("x", Math.min(middle, axes.right - half));
    this.flagText.setAttribute("y", axes.top - 11);
    this.flagText.setAttribute("text-anchor", "middle");
    this.flagText.style.display = middle < axes.left ? "none" : "";
  }
}

// A gate that stays closed for minutes must not squeeze everything else into the left edge.
const soon = (gate, now) => (gate && gate.until - now < 20 ? gate.until : -Infinity);

// clock writes a wait rounded up: who comes back when it shows 0 must not be early.
export function clock(wait) {
  const whole = Math.ceil(wait);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}
