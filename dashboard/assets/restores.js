// The replicas that restore, with how far they are and when they will have caught up.

import { el, mark, offsets, plural, set, time } from "./format.js";

export function createRestores() {
  const section = document.getElementById("restores");
  const list = document.getElementById("restore-rows");
  const rows = new Map();

  function makeRow(id) {
    const bar = el("progress");
    bar.max = 100;
    const row = { li: el("li", "restore"), what: el("span", "what"), bar, left: el("span", "number quiet"), eta: el("span", "number eta") };
    row.li.append(row.what, row.bar, row.left, row.eta);
    rows.set(id, row);
    return row;
  }

  function drawRow(row, r) {
    row.what.replaceChildren(mark(r.role), el("strong", "", `${r.store}/${r.partition}`), el("span", "quiet", `on ${r.node}`));
    row.bar.value = r.percent;
    row.bar.textContent = `${r.percent}%`;
    row.bar.setAttribute("aria-label", `${r.store}/${r.partition} on ${r.node}`);
    const speed = r.per_second >= 0 ? ` at ${offsets(r.per_second)}/s` : "";
    set(row.left, `${offsets(r.left)} left${speed}`);
    set(row.eta, r.left === 0 ? "caught up" : r.eta_ms >= 0 ? `${time(r.eta_ms)} to go` : r.per_second >= 0 ? "not catching up" : "measuring");
  }

  return {
    draw(state) {
      section.hidden = state.restores.length === 0;
      set(document.getElementById("restores-note"), plural(state.restores.length, "replica"));
      const seen = new Set();
      state.restores.forEach((r, i) => {
        const id = `${r.store}/${r.partition}@${r.node}`;
        seen.add(id);
        const row = rows.get(id) ?? makeRow(id);
        drawRow(row, r);
        if (list.children[i] !== row.li) list.insertBefore(row.li, list.children[i] ?? null);
      });
      for (const [id, row] of rows) {
        if (seen.has(id)) continue;
        row.li.remove();
        rows.delete(id);
      }
    },
  };
}
