// What one caller (a route, and the key or email typed for it) has been answered so far.

const mostDots = 1000;
const mostSeries = 6;
const mostClosed = 200;
const longPause = 30; // seconds after which the time axis starts anew

export class Series {
  dots = []; // {n, at, outcome, status, remaining}, oldest first
  counts = { allowed: 0, refused: 0, failed: 0 };
  answered = 0;
  limit = null;
  remaining = null; // as the latest response that had the header said
  gate = null; // {from, until}: the latest refusal came at `from` and said to come back at `until`
  closed = []; // {from, until}: when requests were, or would have been, refused
  last = null; // the latest answer, whole
  origin = 0; // where the time axis begins

  begin(now) {
    const latest = Math.max(this.dots.at(-1)?.at ?? -Infinity, this.gate?.until ?? -Infinity);
    if (now - latest > longPause) this.origin = now;
  }

  add(answer) {
    const { at, outcome, status, remaining, limit, wait } = answer;
    this.counts[outcome]++;
    this.dots.push({ n: ++this.answered, at, outcome, status, remaining });
    if (this.dots.length > mostDots) this.dots.shift();

    this.limit = limit ?? this.limit;
    this.remaining = remaining ?? this.remaining;
    if (outcome === "refused") this.#close(at, wait);
    if (outcome === "allowed") this.#open(at, remaining);
    this.last = answer;
  }

  #close(at, wait) {
    this.gate = wait === null ? null : { from: at, until: at + wait };
    if (!this.gate) return;
    const latest = this.closed.at(-1);
    if (latest && at < latest.until) latest.until = this.gate.until; // the same closure, told again
    else this.closed.push({ ...this.gate });
    if (this.closed.length > mostClosed) this.closed.shift();
  }

  #open(at, remaining) {
    const latest = this.closed.at(-1);
    if (latest && at < latest.until) latest.until = at;
    // A response that took the last token proves that the gate was open, not that it still is.
    if (remaining !== 0 || at >= this.gate?.until) this.gate = null;
  }
}

// Shelf keeps the series of the latest few callers, so that going back to one shows it as it was left.
export class Shelf {
  #series = new Map();

  get(caller) {
    const series = this.#series.get(caller) ?? new Series();
    this.#series.delete(caller); // to the end: the map's order is the order of use
    this.#series.set(caller, series);
    if (this.#series.size > mostSeries) this.#series.delete(this.#series.keys().next().value);
    return series;
  }

  clear(caller) {
    this.#series.delete(caller);
  }
}
