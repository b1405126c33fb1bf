// The details of one partition, with every figure as it is. They are asked for each second while they are open.

import { el, exact, mark, ROLE_WORDS, set, time } from "./format.js";
import { headers, refusal } from "./feed.js";

const EVERY_MS = 1000;

const STATUS_TEXT = {
  served: "An active serves it under its lease.",
  copies: "No active serves it: strong and active reads are refused, reads that tolerate staleness are answered.",
  nobody: "Nobody alive holds it: every read is refused.",
  unassigned: "It has not been assigned to any node yet.",
};

export function createDetail({ lookUp }) {
  const dialog = document.getElementById("detail");
  const title = document.getElementById("detail-title");
  const body = document.getElementById("detail-body");
  let timer = 0;
  let shown = "";
  let store = "";

  function facts(...pairs) {
    return el("dl", "facts", ...pairs.filter(([, v]) => v !== "").map(([k, v]) => el("div", "", el("dt", "", k), el("dd", "", v))));
  }

  function replica(r) {
    const known = r.grade !== "dead";
    const head = el("h3", "", mark(r.role), el("span", "", r.node), el("span", "quiet", [ROLE_WORDS[r.role], known ? r.state : "dead", r.serves ? "serves" : ""].filter(Boolean).join(", ")));
    const input = r.input?.map((o) => el("li", "", `${o.topic}-${o.partition}`, el("span", "number", exact(o.offset)))) ?? [];
    const section = el("section", "replica", head, facts(
      ["Position", known ? exact(r.position) : "not known"],
      ["Offsets behind", exact(r.lag_offsets)],
      ["Time behind, at most", r.lag_ms < 0 ? "not known" : time(r.lag_ms)],
      ["Sample of the end", r.sample_ms < 0 ? "none" : `${time(r.sample_ms)} old`],
      ["Lease", r.role !== "active" ? "" : r.lease ? "held" : "not held"],
      ["Generation", exact(r.generation)],
      ["Last report", `${time(r.heard_ms)} ago`],
      ["Address", r.address],
      ["Rack", r.rack ?? ""],
    ));
    section.dataset.grade = r.grade;
    if (input.length) section.append(el("h4", "", "Input position"), el("ul", "input", ...input));
    return section;
  }

  async function load(store, number) {
    const id = `${store}/${number}`;
    try {
      const response = await fetch(`dashboard/partition?store=${encodeURIComponent(store)}&partition=${number}`, { headers: headers(), cache: "no-store" });
      if (shown !== id) return;
      if (!response.ok) {
        const r = await refusal(response);
        body.replaceChildren(el("p", "problem", r.message));
        return;
      }
      const d = await response.json();
      if (shown !== id) return;
      body.replaceChildren(
        el("p", `status ${d.status}`, STATUS_TEXT[d.status]),
        facts(["Changelog's end", exact(d.end)], ["Newest generation", exact(d.generation)]),
        ...d.replicas.map(replica),
      );
    } catch {
      if (shown === id) body.prepend(el("p", "problem", "The router cannot be reached: what follows is old."));
    }
  }

  const close = () => {
    clearInterval(timer);
    shown = "";
  };
  dialog.addEventListener("close", close);
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close(); // outside of it
  });
  document.getElementById("detail-lookup").addEventListener("click", () => {
    dialog.close();
    lookUp(store);
  });
  document.getElementById("detail-close").addEventListener("click", () => dialog.close());

  return {
    open(p) {
      shown = `${p.store}/${p.number}`;
      store = p.store;
      set(title, shown);
      body.replaceChildren(el("p", "quiet", "Asking the router"));
      dialog.showModal();
      load(p.store, p.number);
      timer = setInterval(() => load(p.store, p.number), EVERY_MS);
    },
  };
}
