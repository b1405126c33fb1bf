// A lookup by the router's JSON gateway, its answer, and why that replica answered and the others did not.

import { clock, el, exact, mark, offsets, ROLE_WORDS, set, time } from "./format.js";
import { headers } from "./feed.js";

const REFUSALS = "type.googleapis.com/iq.v1.ReplicaRefusals";
const ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo";

export function createLookup() {
  const $ = (id) => document.getElementById(`lookup-${id}`);
  const form = $("form");
  const stores = $("store");
  const out = $("answer");
  let infos = [];
  let asked = 0;

  function showSerde() {
    const info = infos.find((s) => s.name === stores.value);
    set($("serde"), info?.key_serde ? `as ${info.key_serde}` : "");
  }
  stores.addEventListener("change", showSerde);

  // address is that of the lookup that the form describes.
  function address() {
    const q = new URLSearchParams({ explain: "true" });
    const value = (id) => $(id).value.trim();
    const policy = [value("mode"), value("staleness") && `max_staleness=${value("staleness")}`, value("offsets") && `max_offset_lag=${value("offsets")}`];
    const given = policy.filter(Boolean).join(",");
    if (given) q.set("policy", given);
    if (value("wait")) q.set("wait", value("wait"));
    return `v1/stores/${encodeURIComponent(stores.value)}/keys/${encodeURIComponent($("key").value)}?${q}`;
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const mine = ++asked;
    set($("took"), "Asking");
    const began = performance.now();
    let show;
    try {
      const response = await fetch(address(), { headers: headers({ Accept: "application/json" }), cache: "no-store" });
      const answer = await response.json();
      show = response.ok ? () => answered(answer) : () => refused(answer);
    } catch {
      show = () => problem("No answer", "The router cannot be reached.");
    }
    if (mine !== asked) return; // a newer one is under way
    set($("took"), `${time(performance.now() - began)} there and back, at ${clock(Date.now())}`);
    show();
    out.hidden = false;
    out.focus({ preventScroll: true });
    out.scrollIntoView({ block: "nearest" });
  });

  function problem(reason, ...words) {
    out.replaceChildren(el("p", "verdict bad", el("strong", "", reason)), ...words.map((w) => el("p", "", w)));
  }

  // answered shows an answer of the gateway.
  function answered(a) {
    const served = a.served;
    const where = served ? ` in ${served.store}/${served.partition}` : "";
    const parts = a.found
      ? [el("p", "verdict good", el("strong", "", "Found"), where, el("span", "quiet", a.value_format ?? "")), el("pre", "value", typeof a.value === "string" ? a.value : JSON.stringify(a.value, null, 2))]
      : [el("p", "verdict", el("strong", "", "Not found"), where)];
    if (served) {
      const rows = [["Position", served.offset_lag === 0 ? exact(served.position) : `${exact(served.position)} of ${exact(served.end_position)}`]];
      if (a.timestamp_ms != null) rows.push(["Record of", new Date(a.timestamp_ms).toISOString()]);
      for (const o of a.input_position ?? []) rows.push([`Input ${o.topic}-${o.partition}`, exact(o.offset)]);
      parts.push(by(served), el("dl", "facts", ...rows.map(([k, v]) => el("div", "", el("dt", "", k), el("dd", "", v)))));
      parts.push(...why(a.candidates ?? a.decision?.candidates ?? [], a.attempts ?? [], served));
    } else {
      parts.push(el("p", "quiet", "The store's partitioner keeps no record of such a key, so it is in no partition."));
    }
    out.replaceChildren(...parts);
  }

  // refused shows a google.rpc.Status, as protojson writes it.
  function refused(status) {
    const detail = (type) => status.details?.find((d) => d["@type"] === type);
    const refusals = detail(REFUSALS);
    const message = String(status.message ?? "The router refused.");
    const reason = detail(ERROR_INFO)?.reason ?? "Refused";
    const candidates = (refusals?.candidates ?? []).map((c) => ({ rank: c.rank ?? 0, why: c.why ?? "", replica: fromProto(c.replica ?? {}) }));
    const attempts = (refusals?.attempts ?? []).map((t) => ({ node: t.node, reason: t.reason, message: t.message ?? t.code, elapsed_ms: seconds(t.elapsed) ?? 0 }));
    const list = Math.min(...candidates.map((c) => message.indexOf(`: ${c.replica.node} (`)).filter((i) => i > 0)); // told below, one by one
    problem(reason, message.slice(0, Number.isFinite(list) ? list : undefined));
    out.append(...why(candidates, attempts, null));
  }

  const seconds = (text) => (text === undefined ? null : parseFloat(text) * 1000);

  function fromProto(r) {
    return {
      node: r.node ?? "", partition: r.partition ?? 0, role: (r.role ?? "").replace("ROLE_", "").toLowerCase(), state: (r.state ?? "").replace("REPLICA_STATE_", "").toLowerCase(),
      offset_lag: r.offsetLag === undefined ? null : Number(r.offsetLag), time_lag_ms: seconds(r.timeLag),
    };
  }

  // lagText says how far behind a replica was, in figures.
  function lagText(r) {
    if (r.offset_lag == null && r.time_lag_ms == null) return "lag not known";
    if (r.offset_lag === 0 && r.time_lag_ms === 0) return "up to date";
    return `${offsets(r.offset_lag ?? -1)} · ${r.time_lag_ms == null ? "?" : time(r.time_lag_ms)} behind`;
  }

  // by is who answered, in one line.
  function by(w) {
    return el("p", "by", mark(w.role), el("strong", "", w.node), el("span", "", `${ROLE_WORDS[w.role] ?? w.role}, ${w.state}`), el("span", "quiet", lagText(w)));
  }

  function why(candidates, attempts, served) {
    if (candidates.length === 0) return [];
    return [el("h3", "", served ? "Why this replica" : "Why nobody"), el("ol", "candidates", ...candidates.map((c) => candidate(c, attempts, served)))];
  }

  // candidate says of one replica what became of it.
  function candidate(c, attempts, served) {
    const r = c.replica;
    const failed = attempts.find((t) => t.node === r.node);
    const answered = served?.node === r.node && served.partition === r.partition;
    let [verdict, tone] = ["refused", "no"];
    if (answered) [verdict, tone] = ["answered", "yes"];
    else if (failed) [verdict, tone] = ["failed", "bad"];
    else if (c.rank > 0) [verdict, tone] = ["not asked", "spare"];
    const words = [tone === "spare" ? `${c.why}; ${place(c.rank)} in line` : c.why];
    if (failed) words.push(`asked, and failed after ${time(failed.elapsed_ms ?? 0)}: ${failed.reason ? `${failed.reason}, ` : ""}${failed.message}`);
    return el("li", `candidate ${tone}`,
      el("span", "who", mark(r.role), el("strong", "", r.node), el("span", "tag", verdict)),
      el("span", "number quiet", lagText(r)),
      el("span", "why", ...words.map((w) => el("span", "", w))));
  }

  function place(rank) {
    return { 1: "first", 2: "second", 3: "third" }[rank] ?? `${rank}th`;
  }

  return {
    draw(state) {
      infos = state.stores;
      const was = stores.value;
      stores.replaceChildren(...infos.map((s) => {
        const o = el("option", "", s.name);
        o.value = s.name;
        return o;
      }));
      if (infos.some((s) => s.name === was)) stores.value = was;
      set($("mode").options[0], `default${state.default_policy && ` (${state.default_policy})`}`);
      showSerde();
    },
    choose(name) {
      stores.value = name;
      showSerde();
      $("key").focus();
      form.scrollIntoView({ block: "nearest" });
    },
  };
}
