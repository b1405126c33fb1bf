// The stream of the router: a snapshot, then changes. It is read by fetch and not by EventSource, because a token travels in a
// header.

const SILENCE_MS = 3500; // the router speaks each second
const RETRY_MS = [500, 1000, 2000, 5000];

const TOKEN = "iqgate-token";

export function token() {
  return sessionStorage.getItem(TOKEN) ?? "";
}

export function setToken(text) {
  sessionStorage.setItem(TOKEN, text);
}

// headers are those of every request for data.
export function headers(more = {}) {
  return token() ? { ...more, Authorization: `Bearer ${token()}` } : more;
}

// refusal reads why a request was refused.
export async function refusal(response) {
  try {
    const r = await response.json();
    return { status: response.status, reason: r.reason ?? "", message: r.message ?? response.statusText };
  } catch {
    return { status: response.status, reason: "", message: `the router answered ${response.status} ${response.statusText}` };
  }
}

// follow calls on.event(name, data) for each event, on.open when a stream stands, on.lost(refusal or null, ms until the next
// try) when it broke, and goes on for ever. wake() tries again at once.
export function follow(url, on) {
  let wake = () => {};
  const run = async () => {
    for (let failures = 0; ; failures++) {
      let refused = null;
      try {
        refused = await once(url, on, () => {
          failures = 0;
        });
      } catch {
        // The connection broke, or was silent for too long.
      }
      const pause = RETRY_MS[Math.min(failures, RETRY_MS.length - 1)];
      on.lost(refused, pause);
      await new Promise((resolve) => {
        const timer = setTimeout(resolve, pause);
        wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  };
  run();
  return { wake: () => wake() };
}

// once reads one stream to its end. It returns a refusal, or null when the stream ended.
async function once(url, on, opened) {
  const abort = new AbortController();
  let watchdog = setTimeout(() => abort.abort(), SILENCE_MS);
  const heard = () => {
    clearTimeout(watchdog);
    watchdog = setTimeout(() => abort.abort(), SILENCE_MS);
  };
  try {
    const response = await fetch(url, { headers: headers({ Accept: "text/event-stream" }), signal: abort.signal, cache: "no-store" });
    if (!response.ok) return await refusal(response);
    opened();
    on.open();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let refused = null;
    const parse = parser((name, data) => {
      if (name === "refused") refused = { status: 403, ...data };
      else on.event(name, data);
    });
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return refused;
      heard();
      parse(value);
    }
  } finally {
    clearTimeout(watchdog);
    abort.abort();
  }
}

// parser cuts a stream of text into events.
function parser(emit) {
  let rest = [];
  let event = "";
  let data = "";
  return (text) => {
    let from = 0;
    for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", from)) {
      line(rest.join("") + text.slice(from, end));
      rest = [];
      from = end + 1;
    }
    if (from < text.length) rest.push(text.slice(from));
  };
  function line(text) {
    if (text.startsWith("event: ")) event = text.slice(7);
    else if (text.startsWith("data: ")) data = text.slice(6);
    else if (text === "" && event) {
      emit(event, JSON.parse(data));
      event = data = "";
    }
  }
}
