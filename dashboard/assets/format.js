// Words and figures. -1 stands for what nobody knows, as it does in the router.

const UNKNOWN = -1;

// offsets is a count as short as it can be: the router has rounded it up already.
export function offsets(n) {
  if (n === UNKNOWN) return "?";
  for (const [unit, size] of [["G", 1e9], ["M", 1e6], ["k", 1e3]]) {
    if (n >= size) return `${trim(n / size)}${unit}`;
  }
  return String(n);
}

// lag is a time that the router has rounded up to half a second or more.
export function lag(ms) {
  if (ms === UNKNOWN) return "?";
  if (ms === 0) return "0s";
  if (ms <= 500) return "<0.5s";
  return time(ms);
}

// time is a duration in at most two units.
export function time(ms) {
  if (ms === UNKNOWN) return "?";
  if (ms === 0) return "0s";
  if (ms < 1) return `${trim(ms)}ms`;
  if (ms < 1000) return `${Math.round(ms)}ms`;
  const s = ms / 1000;
  if (s < 60) return `${trim(s)}s`;
  if (s < 3600) return pair(Math.round(s), 60, "m", "s");
  return pair(Math.round(s / 60), 60, "h", "m");
}

function pair(n, size, large, small) {
  const rest = n % size;
  return rest ? `${Math.floor(n / size)}${large} ${rest}${small}` : `${n / size}${large}`;
}

function trim(n) {
  return String(n >= 100 ? Math.round(n) : Number(n.toPrecision(2)));
}

// exact is a whole number with its digits in groups.
export function exact(n) {
  return n === UNKNOWN ? "not known" : n.toLocaleString("en-US");
}

export function rate(perSecond) {
  if (perSecond === 0) return "0/s";
  if (perSecond >= 1000) return `${offsets(Math.round(perSecond))}/s`;
  return `${trim(perSecond)}/s`;
}

export function share(part) {
  if (part === 0 || part === 1) return `${part * 100}%`;
  return part < 0.001 ? "<0.1%" : `${Math.min(99.9, Number((part * 100).toPrecision(2)))}%`;
}

export function clock(ms) {
  return new Date(ms).toLocaleTimeString("en-GB");
}

export function plural(n, one, more = `${one}s`) {
  return `${n.toLocaleString("en-US")} ${n === 1 ? one : more}`;
}

// behind says both lags in words, for whoever hears the page.
export function behind(r) {
  const count = r.offsets === UNKNOWN ? "offset lag not known" : `${plural(r.offsets, "offset")} behind`;
  const age = r.time_ms === UNKNOWN ? "time lag not known" : r.time_ms === 0 ? "up to date" : `at most ${r.time_ms / 1000} seconds old`;
  return `${count}, ${age}`;
}

// el makes an element: its class, its text or children.
export function el(tag, className = "", ...children) {
  const e = document.createElement(tag);
  if (className) e.className = className;
  e.append(...children);
  return e;
}

// set writes only what differs, so that nothing is laid out for a value that stays.
export function set(e, text) {
  if (e.textContent !== text) e.textContent = text;
}

const LETTERS = { active: "A", standby: "S", warmup: "W" };

// mark is a role's letter in its shape.
export function mark(role) {
  const m = el("span", `mark ${role}`, el("span", "", LETTERS[role] ?? "?"));
  m.setAttribute("aria-hidden", "true");
  return m;
}

export const ROLE_WORDS = { active: "active", standby: "standby", warmup: "warm-up" };
