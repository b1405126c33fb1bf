// The nodes, one row each. A press on a node's name shows its replicas alone in the matrix.

import { el, lag, offsets, plural, set } from "./format.js";

const STATE_WORDS = { alive: "alive", suspect: "suspect", dead: "dead" };
const LEASE_WORDS = { held: "held", lapsed: "lapsed", none: "–" };
const LEASE_HELP = { held: "It may answer as active.", lapsed: "It may not answer as active until it has a lease again.", none: "It is active for nothing." };

export function createNodes({ select, announce }) {
  const body = document.getElementById("node-rows");
  const template = document.getElementById("node-template");
  const rows = new Map();
  let selected = "";

  function toggle(id) {
    selected = selected === id ? "" : id;
    for (const [other, row] of rows) row.name.setAttribute("aria-pressed", String(other === selected));
    select(selected);
  }

  function makeRow(id) {
    const tr = template.content.firstElementChild.cloneNode(true);
    const [name, state, heard, lease, active, standby, restoring, worst, address, rack, version] = tr.children;
    const row = { tr, name: name.firstElementChild, state, heard, lease, active, standby, restoring, worst, address, rack, version, was: null };
    row.name.textContent = id;
    row.name.title = "Show its replicas alone";
    row.name.addEventListener("click", () => toggle(id));
    return row;
  }

  function drawRow(row, n) {
    const { tr } = row;
    tr.dataset.state = n.state;
    tr.dataset.node = n.id;
    const told = [n.state, n.draining, n.refused, n.misplaced, n.dropped].join();
    if (row.told !== told) row.state.replaceChildren(...stateOf(n));
    row.told = told;
    set(row.heard, lag(n.heard_ms));
    set(row.lease, LEASE_WORDS[n.lease]);
    row.lease.dataset.lease = n.lease;
    row.lease.title = LEASE_HELP[n.lease];
    set(row.active, String(n.active));
    set(row.standby, n.warmup ? `${n.standby} + ${n.warmup} warm-up` : String(n.standby));
    set(row.restoring, n.restoring ? String(n.restoring) : "–");
    set(row.worst, n.state === "dead" || n.worst_offsets < 0 ? "–" : `${offsets(n.worst_offsets)} · ${lag(n.worst_ms)}`);
    set(row.address, n.address);
    set(row.rack, n.rack || "–");
    set(row.version, n.version || "–");
  }

  function stateOf(n) {
    const words = [el("span", `dot ${n.state}`), STATE_WORDS[n.state]];
    if (n.draining) words.push(el("span", "tag", "draining"));
    if (n.refused && n.state !== "dead") words.push(el("span", "tag bad", "refuses connections"));
    if (n.misplaced) words.push(tag(`${offsets(n.misplaced)} misplaced`, "Records that lookups by key cannot find: another partitioner than the store's put them where they are."));
    if (n.dropped) words.push(tag(`${offsets(n.dropped)} dropped`, "Records that a sink's partitioner sent to no partition."));
    return words;
  }

  function tag(text, help) {
    const t = el("span", "tag", text);
    t.title = help;
    return t;
  }

  // say tells those who hear the page what changed.
  function say(n, was) {
    if (was && was.state !== n.state) announce(`Node ${n.id} is ${n.state}`);
    else if (was && !was.draining && n.draining) announce(`Node ${n.id} is draining`);
  }

  return {
    draw(state) {
      for (const [id, row] of rows) {
        if (state.nodes.has(id)) continue;
        announce(`Node ${id} has left`);
        row.tr.remove();
        rows.delete(id);
        if (selected === id) toggle(id);
      }
      const order = [...state.nodes.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
      order.forEach((n, i) => {
        let row = rows.get(n.id);
        if (!row) {
          row = makeRow(n.id);
          rows.set(n.id, row);
        }
        if (row.was !== n) {
          drawRow(row, n);
          say(n, row.was);
          row.was = n;
        }
        if (body.children[i] !== row.tr) body.insertBefore(row.tr, body.children[i] ?? null);
      });
      document.getElementById("nodes-empty").hidden = order.length > 0;
      const generations = new Set(order.filter((n) => n.state !== "dead" && n.generation > 0).map((n) => n.generation));
      const note = generations.size === 0 ? "" : generations.size === 1 ? `generation ${[...generations][0]}` : `generations ${Math.min(...generations)} to ${Math.max(...generations)}`;
      set(document.getElementById("nodes-note"), order.length ? `${plural(order.length, "node")}${note && ` · ${note}`}` : "");
    },
  };
}
