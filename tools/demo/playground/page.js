// The page: controls in, picture and numbers out.

import { draw } from "./axes.js";
import { Chart, clock, shapes } from "./chart.js";
import { presets, routes } from "./routes.js";
import { run } from "./run.js";
import { seconds, send } from "./send.js";
import { Shelf } from "./series.js";
import { showResponse } from "./response.js";

const at = (id) => document.getElementById(id);
const calm = matchMedia("(prefers-reduced-motion: reduce)");

const chart = new Chart(at("chart"));
const shelf = new Shelf();
const typed = new Map(routes.map((route) => [route, route.field?.value ?? ""])); // what each field holds

let route = routes[0];
let series = null; // the one in the picture
let going = null; // {stop} of the run under way

// ---- choosing

for (const choice of routes) {
  const label = document.createElement("label");
  const radio = Object.assign(document.createElement("input"),
    { type: "radio", name: "route", id: `route-${choice.id}`, checked: choice === route });
  radio.addEventListener("change", () => choose(choice));
  label.append(radio, span("name", choice.name), span("path", `${choice.method} ${choice.path}`), span("limit", choice.limit));
  at("routes").append(label);
}

for (const preset of presets) {
  const button = Object.assign(document.createElement("button"),
    { type: "button", id: `preset-${preset.id}`, textContent: preset.name });
  button.addEventListener("click", () => {
    at("count").value = preset.count;
    at("rate").value = preset.rate;
    start();
  });
  at("presets").append(button);
}

function span(name, text) {
  return Object.assign(document.createElement("span"), { className: name, textContent: text });
}

function choose(choice) {
  route = choice;
  const { field } = route;
  at("value-box").hidden = !field;
  at("value-label").textContent = field?.label ?? "";
  at("value").inputMode = field?.json === "email" ? "email" : "text";
  at("value").value = typed.get(route);
  turnTo();
}

// turnTo shows what the caller that is now chosen has been answered so far; a run for another one ends.
function turnTo() {
  stop();
  series = shelf.get(`${route.id} ${typed.get(route)}`);
  chart.show(series);
  say(series.dots.length ? "" : `${route.limit}. Send some and see.`);
  warn("");
  show();
}

at("value").addEventListener("change", () => {
  typed.set(route, at("value").value);
  turnTo();
});

at("clear").addEventListener("click", () => {
  shelf.clear(`${route.id} ${typed.get(route)}`);
  turnTo();
});

// ---- sending

at("controls").addEventListener("submit", (event) => {
  event.preventDefault();
  if (going) stop();
  else start();
});

async function start() {
  stop();
  const count = Math.round(within(at("count")));
  const rate = within(at("rate"));
  const value = typed.get(route);
  const mine = { series, route, halt: new AbortController() };
  going = mine;

  series.begin(seconds());
  mark(true);
  say(`Sending ${plural(count)} to ${route.path}`);
  warn("");
  tick();

  const answers = await run({ count, rate, signal: mine.halt.signal }, async () => {
    const answer = await send(mine.route, value);
    mine.series.add(answer);
    if (mine.series === series) { chart.changed(); show(); tick(); }
    return answer;
  });

  if (going === mine) { going = null; mark(false); }
  if (mine.series === series && !going) report(answers);
}

function stop() {
  going?.halt.abort();
  going = null;
  mark(false);
}

function mark(running) {
  document.body.dataset.running = running;
  at("run").textContent = running ? "Stop" : "Send";
}

// within brings a number that was typed into its field's range, and shows what it became.
function within(input) {
  const number = Number(input.value) || Number(input.defaultValue);
  input.value = Math.min(Number(input.max), Math.max(Number(input.min), number));
  return Number(input.value);
}

// ---- showing

let waking = null; // the timer or frame that will draw next

// tick draws now, and again for as long as the picture changes by itself.
function tick() {
  if (waking) return;
  const changing = chart.frame(seconds(), going !== null);
  showCountdown();
  if (!changing) return;
  const again = () => { waking = null; tick(); };
  waking = calm.matches ? setTimeout(again, 500) : requestAnimationFrame(again);
}

function show() {
  const { counts, limit, remaining, last } = series;
  for (const outcome of ["allowed", "refused", "failed"]) at(outcome).textContent = counts[outcome];
  at("failed-box").hidden = counts.failed === 0;
  at("remaining").textContent = remaining ?? "–";
  at("limit").textContent = limit ?? "–";
  at("limit-box").hidden = limit === null;
  at("tokens").style.setProperty("--limit", limit ?? 1);
  at("tokens").style.setProperty("--left", remaining ?? 0);
  at("tokens").classList.toggle("many", limit > 40);
  showResponse(last);
  showCountdown();
  if (!waking) chart.frame(seconds(), going !== null);
}

function showCountdown() {
  const { gate, last, remaining } = series;
  const wait = gate ? gate.until - seconds() : 0;
  const unknown = !gate && (remaining === 0 || last?.outcome === "refused"); // none left, and no word for how long
  at("left-label").textContent = gate && wait <= 0 ? "Was left" : "Left"; // once the gate is open there must be more
  at("countdown").textContent = wait > 0 ? `in ${clock(wait)}` : unknown ? "not yet" : "now";
  at("countdown-bar").style.setProperty("--part", wait > 0 ? wait / (gate.until - gate.from) : 0);
}

// report says in words what a run came to: once, at its end, for those who listen.
function report(answers) {
  const of = (outcome) => answers.filter((answer) => answer.outcome === outcome).length;
  const failed = of("failed");
  const words = [`${plural(answers.length)}: ${of("allowed")} allowed, ${of("refused")} refused`];
  if (failed) words[0] += `, ${failed} failed`;
  const { gate, last } = series;
  if (last?.outcome === "refused" && gate) words.push(`Last refusal: retry after ${clock(gate.until - gate.from)}`);
  say(`${words.join(". ")}.`);

  const trouble = answers.find((answer) => answer.outcome === "failed");
  const bare = answers.some((answer) => answer.limit === null);
  if (trouble?.error) warn(`No answer from ${route.path}: ${trouble.error}.`);
  else if (trouble) warn(`${route.path} answered ${trouble.status}. The limiter did not refuse that.`);
  else if (bare) warn(`${route.path} sends no X-RateLimit headers, so the requests left cannot be drawn.`);
}

const plural = (n) => `${n} request${n === 1 ? "" : "s"}`;

function say(text) {
  at("summary").textContent = text;
}

function warn(text) {
  at("notice").textContent = text;
  at("notice").hidden = !text;
}

for (const svg of document.querySelectorAll("[data-mark]")) {
  svg.setAttribute("viewBox", "-7 -7 14 14");
  draw("path", svg, { class: `dot ${svg.dataset.mark}`, d: shapes[svg.dataset.mark] });
}
choose(route);
