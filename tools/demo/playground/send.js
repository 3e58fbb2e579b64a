// One request to a limited route, and what its response says about the limit.

const patience = 10_000; // milliseconds until a silent server counts as no answer
const longestBody = 600; // characters of a body worth showing

export const seconds = () => performance.now() / 1000;

// send never throws: a request that got no answer is an answer of outcome "failed", with the browser's words in `error`.
export async function send(route, value) {
  try {
    const response = await fetch(route.path, { ...request(route, value), signal: AbortSignal.timeout(patience) });
    const at = seconds();
    const body = await response.text(); // read to the end, or the connection stays busy
    return answer(response, body.slice(0, longestBody), at);
  } catch (error) {
    return { at: seconds(), outcome: "failed", status: "none", limit: null, remaining: null, wait: null, error: error.message };
  }
}

function request({ method, field }, value) {
  const headers = {};
  let body;
  if (field?.header) headers[field.header] = value;
  if (field?.json) {
    headers["Content-Type"] = "application/json";
    body = JSON.stringify({ [field.json]: value });
  }
  return { method, headers, body, cache: "no-store" };
}

function answer(response, body, at) {
  const { status, statusText, headers } = response;
  const wait = waiting(headers.get("Retry-After"));
  return {
    at, status, statusText, body, wait,
    outcome: outcome(status, wait),
    limit: whole(headers, "Limit"),
    remaining: whole(headers, "Remaining"),
    headers: [...headers],
  };
}

// A limiter may be set to refuse with another status than 429, but Retry-After goes on every refusal.
function outcome(status, wait) {
  if (status === 429 || (status >= 400 && wait !== null)) return "refused";
  return status < 400 ? "allowed" : "failed";
}

function whole(headers, name) {
  const text = headers.get(`X-RateLimit-${name}`) ?? headers.get(`RateLimit-${name}`);
  return /^\d+$/.test(text ?? "") ? Number(text) : null;
}

// Retry-After is a number of seconds or a date (RFC 9110, 10.2.3).
function waiting(text) {
  if (text === null) return null;
  if (/^\d+$/.test(text)) return Number(text);
  const date = Date.parse(text);
  return Number.isNaN(date) ? null : Math.max(0, (date - Date.now()) / 1000);
}
