// The last response as it came: status, headers, body. Everything in it is text, never markup.

const telling = /^(x-)?ratelimit|^retry-after$/; // the headers that this page is about come first

export function showResponse(answer) {
  const at = (id) => document.getElementById(id);
  const headers = (answer?.headers ?? []).toSorted(([a], [b]) => telling.test(b) - telling.test(a));

  at("status-line").textContent = answer ? statusLine(answer) : "none yet";
  at("status-line").dataset.outcome = answer?.outcome ?? "";
  at("headers").replaceChildren(...headers.map(row));
  at("body").textContent = answer?.body ?? "";
  at("body").hidden = !answer?.body;
}

// HTTP/2 has no reason phrase, and the browser does not tell the version.
function statusLine({ error, status, statusText }) {
  return error ? `no answer (${error})` : `${status} ${statusText}`.trim();
}

function row([name, value]) {
  const box = document.createElement("div");
  box.className = telling.test(name) ? "telling" : "";
  box.append(Object.assign(document.createElement("dt"), { textContent: name }),
    Object.assign(document.createElement("dd"), { textContent: value }));
  return box;
}
