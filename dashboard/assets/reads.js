// What reads meet: rates by outcome with their course, and decisions on lookups that were kept.

import { clock, el, mark, offsets, rate, set, share, time } from "./format.js";

const SECONDS = 60;
const MAX_ROWS = 50;
const SVG = "http://www.w3.org/2000/svg";

export function createReads() {
  const course = document.getElementById("course");
  const rates = document.getElementById("rates");
  const note = document.getElementById("reads-note");
  const list = document.getElementById("recent-rows");
  const onlyRefused = document.getElementById("only-refused");
  let state = null;
  const rows = new Map(); // by sequence

  function drawCourse(points) {
    const top = Math.max(1, ...points.map((p) => p.active + p.copies + p.refused));
    const [width, height] = [300, 56];
    const step = width / SECONDS;
    const bars = [];
    points.forEach((p, i) => {
      const x = width - (points.length - i) * step;
      let y = height;
      for (const kind of ["active", "copies", "refused"]) {
        const h = p[kind] === 0 ? 0 : Math.max(1, (p[kind] / top) * (height - 2));
        if (h === 0) continue;
        y -= h;
        const bar = document.createElementNS(SVG, "rect");
        for (const [name, value] of Object.entries({ x, y, width: step - 1, height: h, class: kind })) bar.setAttribute(name, value);
        bars.push(bar);
      }
    });
    course.replaceChildren(...bars);
  }

  function ratesRow(name, kind, value, extra, quiet) {
    const tr = el("tr", quiet ? "none" : "", el("th", "", el("span", `key ${kind}`), name), el("td", "number", value), el("td", "number quiet", extra));
    tr.children[0].scope = "row";
    if (extra) tr.children[2].title = "of the answers";
    return tr;
  }

  const refused = (r) => Boolean(r.reason);

  function read(r) {
    const li = el("li", `decision ${refused(r) ? "bad" : r.attempts ? "over" : "good"}`);
    const where = r.partition < 0 ? r.store : `${r.store}/${r.partition}`;
    li.append(el("time", "number quiet", clock(r.at_ms)), el("strong", "where", where || "no store"), el("span", "policy quiet", r.policy));
    const outcome = el("span", "outcome");
    if (refused(r)) {
      outcome.append(el("span", "tag bad", r.reason), el("span", "why", r.message ?? ""));
    } else if (!r.node) {
      outcome.append(el("span", "quiet", "not found: such a key is in no partition"));
    } else {
      const age = r.offsets === 0 && r.lag_ms === 0 ? "up to date" : `${offsets(r.offsets)} · ${time(r.lag_ms)} behind`;
      outcome.append(mark(r.role), el("span", "", r.node), el("span", "quiet", `${age}, took ${time(r.took_ms)}`));
      if (!r.found) outcome.append(el("span", "quiet", "not found"));
      if (r.sampled) outcome.append(el("span", "quiet", "sample"));
    }
    li.append(outcome);
    for (const a of r.attempts ?? []) {
      li.append(el("span", "attempt", `${a.node} failed after ${time(a.took_ms)}: `, el("span", "quiet", `${a.reason ? `${a.reason}, ` : ""}${a.message}`)));
    }
    return li;
  }

  function drawRecent(s) {
    state = s;
    const wanted = s.recent.filter((r) => !onlyRefused.checked || refused(r) || r.attempts).slice(-MAX_ROWS).reverse();
    const keep = new Set(wanted.map((r) => r.sequence));
    for (const [sequence, li] of rows) {
      if (keep.has(sequence)) continue;
      li.remove();
      rows.delete(sequence);
    }
    list.querySelector(".empty")?.remove();
    wanted.forEach((r, i) => {
      let li = rows.get(r.sequence);
      if (!li) {
        li = read(r);
        rows.set(r.sequence, li);
      }
      if (list.children[i] !== li) list.insertBefore(li, list.children[i] ?? null);
    });
    if (wanted.length === 0) list.append(el("li", "empty", onlyRefused.checked ? "None has been refused or failed over." : "No lookup yet."));
  }
  onlyRefused.addEventListener("change", () => state && drawRecent(state));

  return {
    drawRates(s) {
      const { reads } = s;
      document.getElementById("reads").hidden = !reads?.known;
      document.getElementById("recent").hidden = !reads?.known;
      if (!reads?.known) return;
      set(note, `${offsets(reads.total)} since the router began`);
      drawCourse(reads.course);
      const r = reads.rates;
      if (!r) {
        rates.replaceChildren(ratesRow("Measuring", "", "", "", true));
        return;
      }
      const refusals = Object.entries(r.refused).sort(([a], [b]) => (a < b ? -1 : 1));
      rates.replaceChildren(
        ratesRow("Answered by the active", "active", rate(r.active), "", !r.active),
        ratesRow("Answered by copies", "copies", rate(r.copies), share(r.copies_share), !r.copies),
        ratesRow("of these stale", "inner", rate(r.stale), share(r.stale_share), !r.stale),
        ratesRow("of these failed over", "inner", rate(r.failed_over), "", !r.failed_over),
        ratesRow("Refused", "refused", rate(refusals.reduce((sum, [, n]) => sum + n, 0)), "", !refusals.length),
        ...refusals.map(([reason, n]) => ratesRow(reason, "inner", rate(n), "", false)),
        ratesRow("Out of time, or caller gone", "refused", rate(r.failed), "", !r.failed),
      );
    },
    drawRecent,
  };
}
