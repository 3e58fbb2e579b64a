// What can be tried. To add a route, add a row: the page builds its controls from this table.
//
//   field: what the person types, and where it goes: {header: NAME} or {json: NAME}; none where only the address counts.

export const routes = [
  { id: "data", name: "Per IP", method: "GET", path: "/data", limit: "10 at once, then 2/s" },
  { id: "keyed", name: "Per key", method: "GET", path: "/keyed", limit: "5 per 10 s",
    field: { label: "API key", header: "X-Api-Key", value: "alice" } },
  { id: "email", name: "Per email", method: "POST", path: "/api/reset-password-init", limit: "1 per 5 s",
    field: { label: "Email", json: "email", value: "j.doe@email.com" } },
];

// A hundred a second, and not as fast as can be: the requests keep their order, and a bucket has no time to refill.
export const presets = [
  { id: "one", name: "One", count: 1, rate: 1 },
  { id: "burst", name: "Burst of 15", count: 15, rate: 100 },
  { id: "steady", name: "Steady 1/s", count: 12, rate: 1 },
  { id: "flood", name: "Flood 5/s", count: 50, rate: 5 },
];
