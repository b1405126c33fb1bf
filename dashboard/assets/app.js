// The page: it follows the router's stream and draws what has changed, at most once a frame.

import { el, lag, offsets, plural, set, share, time } from "./format.js";
import { follow, setToken } from "./feed.js";
import { newDirty, newState, takeChange, takeSnapshot } from "./state.js";
import { createNodes } from "./nodes.js";
import { createMatrix } from "./matrix.js";
import { createDetail } from "./detail.js";
import { createLookup } from "./lookup.js";
import { createReads } from "./reads.js";
import { createRestores } from "./restores.js";

const $ = (id) => document.getElementById(id);

const state = newState();
let dirty = newDirty();
let scheduled = false;
const store = new URLSearchParams(location.search).get("store") ?? "";

const lookup = createLookup();
const detail = createDetail({ lookUp: (name) => lookup.choose(name) });
const matrix = createMatrix({ open: (p) => detail.open(p) });
const nodes = createNodes({ select: (id) => matrix.select(id), announce: (text) => set($("announce"), text) });
const reads = createReads();
const restores = createRestores();

// Connection: what it is, since when the page has heard nothing, and when it tries again.
const link = { state: "opening", heardAt: 0, retryAt: 0, refused: null };

const feed = follow(`dashboard/events${store ? `?store=${encodeURIComponent(store)}` : ""}`, {
  open: () => {
    link.refused = null;
  },
  event: (name, data) => {
    link.state = "live";
    link.heardAt = performance.now();
    if (name === "snapshot") {
      performance.mark("snapshot");
      takeSnapshot(state, data);
      dirty.add("all");
    } else if (name === "change") {
      takeChange(state, data, dirty);
    }
    schedule();
  },
  lost: (refused, pause) => {
    link.state = refused ? "refused" : "lost";
    link.refused = refused;
    link.retryAt = performance.now() + pause;
    if (refused?.status === 401) askToken(refused.message);
    drawLink();
  },
});

function schedule() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => {
    scheduled = false;
    const now = dirty;
    dirty = newDirty();
    draw(now);
    drawLink();
  });
}

function draw(parts) {
  const all = parts.has("all");
  const has = (part) => all || parts.has(part);
  if (all) performance.mark("draw");
  if (has("application")) {
    set($("application"), state.application);
    document.title = state.application ? `${state.application} · iqgate` : "iqgate";
  }
  if (all) {
    set($("router"), `${state.router} · ${state.version}`);
  }
  if (has("summary") || has("reads")) drawSummary();
  if (has("nodes")) nodes.draw(state);
  if (has("stores") || parts.partitions.size > 0) matrix.draw(state, has("stores") ? null : parts.partitions);
  if (has("stores")) lookup.draw(state);
  if (has("restores")) restores.draw(state);
  if (has("reads")) reads.drawRates(state);
  if (has("recent")) reads.drawRecent(state);
  if (all) performance.measure("first draw", "draw");
}

// A tile of the summary: its name, figure, what stands below, and how it is.
function drawSummary() {
  const s = state.summary;
  const rates = state.reads?.rates;
  const total = s.served + s.copies + s.nobody + s.unassigned;
  const nodeCount = s.alive + s.suspect + s.dead;
  const missing = [[s.suspect, "suspect"], [s.dead, "dead"]].filter(([n]) => n).map(([n, word]) => `${n} ${word}`);
  const unserved = [[s.copies, "copies only"], [s.nobody, "nobody"], [s.unassigned, "unassigned"]].filter(([n]) => n).map(([n, word]) => `${n} ${word}`);
  const tiles = [
    ["Nodes alive", `${s.alive}/${nodeCount}`, missing.join(", ") || "all heard", s.dead ? "bad" : s.suspect ? "warn" : ""],
    ["Partitions served", `${s.served}/${total}`, unserved.join(", ") || "each by an active", s.nobody ? "bad" : total > s.served ? "warn" : ""],
    ["Furthest behind", lag(s.worst_ms), s.worst_offsets < 0 ? "no lag known" : plural(s.worst_offsets, "offset").replace(/^[\d,]+/, offsets(s.worst_offsets)), s.worst_ms > 10_000 ? "warn" : ""],
    ["Restoring", String(s.restoring), s.restoring ? "see below" : "nothing", s.restoring ? "info" : ""],
  ];
  if (state.reads?.known) {
    const refused = rates ? Object.values(rates.refused).reduce((a, b) => a + b, rates.failed) : 0;
    tiles.push(
      ["Reads", rates ? perSecond(rates.active + rates.copies + rates.nowhere + refused) : "–", "each second", ""],
      ["Stale", rates ? share(rates.stale_share) : "–", "of the answers", ""],
      ["Refused", rates ? perSecond(refused) : "–", "each second", refused ? "warn" : ""],
    );
  }
  const list = $("summary");
  while (list.children.length > tiles.length) list.lastChild.remove();
  tiles.forEach(([name, figure, note, tone], i) => {
    let tile = list.children[i];
    if (!tile) {
      tile = el("div", "tile", el("dt"), el("dd", "figure"), el("dd", "note"));
      list.append(tile);
    }
    tile.dataset.tone = tone;
    set(tile.children[0], name);
    set(tile.children[1], figure);
    set(tile.children[2], note);
  });
}

function perSecond(n) {
  return n === 0 ? "0" : n >= 1000 ? offsets(Math.round(n)) : n >= 10 ? String(Math.round(n)) : String(Number(n.toPrecision(2)));
}

// drawLink says plainly when what is seen is old.
function drawLink() {
  const now = performance.now();
  const age = now - link.heardAt;
  const stale = link.state !== "live" || age > 2500;
  const banner = $("banner");
  const pill = $("connection");
  pill.dataset.state = link.state === "live" && stale ? "lost" : link.state;
  if (!stale) {
    set(pill, "Live");
    banner.hidden = true;
    document.body.classList.remove("old");
    return;
  }
  const seen = state.loaded ? `What you see is ${time(Math.ceil(age / 1000) * 1000)} old.` : "";
  const retry = link.retryAt > now ? `Trying again in ${Math.ceil((link.retryAt - now) / 1000)}s.` : "Trying again.";
  if (link.state === "opening") {
    set(pill, "Connecting");
  } else if (link.refused) {
    set(pill, "Refused");
    set(banner, `The router refuses: ${link.refused.message}. ${seen} ${link.refused.status === 403 && !store ? "If you may see one store alone, open this page with ?store=NAME." : ""} ${retry}`);
    banner.hidden = false;
  } else {
    set(pill, "Connection lost");
    set(banner, `The connection to the router is lost. ${seen} ${retry}`);
    banner.hidden = false;
  }
  document.body.classList.toggle("old", state.loaded);
}

setInterval(drawLink, 500);

function askToken(why) {
  const dialog = $("signin");
  set($("signin-why"), why);
  if (!dialog.open) dialog.showModal();
}

$("signin-form").addEventListener("submit", () => {
  setToken($("signin-token").value.trim());
  $("signin-token").value = "";
  feed.wake();
});
