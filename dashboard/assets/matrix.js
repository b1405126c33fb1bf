// The matrix: for each store its partitions in order, for each partition a cell for each replica.
//
// Keys: left and right go from partition to partition, up and down through the cells of one and on to the one above or below,
// Home and End to the first and last partition of the store, Page Up and Page Down to the store before and after, Enter opens
// the details. The whole matrix is one stop of the Tab key.

import { behind, el, lag, mark, offsets, plural, ROLE_WORDS, set } from "./format.js";
import { key } from "./state.js";

const COMPACT_FROM = 200; // partitions from which on the matrix is compact, unless somebody has said otherwise

const STATUS_WORDS = { served: "", copies: "no active", nobody: "nobody alive", unassigned: "not assigned yet" };

export function createMatrix({ open }) {
  const root = document.getElementById("matrix");
  const filter = document.getElementById("filter");
  const attention = document.getElementById("attention");
  const compact = document.getElementById("compact");
  const empty = document.getElementById("matrix-empty");
  const stores = new Map(); // by name: the section, its grid and its cards by number
  let state = null;
  let selected = ""; // a node
  let current = null; // the cell that the Tab key finds
  let chosenDensity = false;

  function makeStore(name) {
    const title = el("h3", "", name);
    const meta = el("p", "quiet");
    const grid = el("div", "grid");
    grid.setAttribute("role", "grid");
    grid.setAttribute("aria-label", `Partitions of ${name}`);
    const section = el("section", "store", el("div", "store-head", title, meta), grid);
    section.setAttribute("aria-label", `Store ${name}`);
    const s = { name, section, grid, meta, cards: [], away: false, pending: new Set() };
    section.dataset.store = name;
    stores.set(name, s);
    visibility.observe(section);
    return s;
  }

  // Of a large cluster only the stores in sight are drawn at each change; the others wait until they are near.
  const visibility = new IntersectionObserver((entries) => {
    for (const e of entries) {
      const s = stores.get(e.target.dataset.store);
      if (!s) continue;
      s.away = !e.isIntersecting && compact.checked;
      if (!s.away) catchUp(s);
    }
  }, { rootMargin: "400px" });

  function catchUp(s) {
    for (const c of s.pending) drawCard(c, c.p);
    s.pending.clear();
  }

  // Cards and cells are copies: thousands of them are made at once.
  const cardModel = el("div", "part", el("div", "part-head", el("span", "part-no"), el("span", "part-status")));
  cardModel.setAttribute("role", "row");
  cardModel.firstChild.setAttribute("role", "rowheader");
  const cellModel = el("div", "cell", mark("active"), el("span", "cell-node"), el("span", "cell-offsets"), el("span", "cell-time"));
  cellModel.setAttribute("role", "gridcell");
  cellModel.tabIndex = -1;

  function makeCard(p) {
    const card = cardModel.cloneNode(true);
    const head = card.firstChild;
    head.firstChild.textContent = p.number;
    return { card, head, status: head.lastChild, cells: [], p, was: null };
  }

  function makeCell() {
    return { e: cellModel.cloneNode(true), role: "active" };
  }

  function drawCard(c, p) {
    c.card.dataset.status = p.status;
    c.card.dataset.store = p.store;
    c.card.dataset.number = p.number;
    set(c.status, STATUS_WORDS[p.status]);
    c.head.setAttribute("aria-label", `Partition ${p.number}${STATUS_WORDS[p.status] && `, ${STATUS_WORDS[p.status]}`}`);
    const want = p.replicas.length || 1; // one that nobody holds has a cell too, so that keys reach it
    while (c.cells.length > want) {
      const gone = c.cells.pop().e;
      if (gone === current) moveCurrent(c.cells.at(-1)?.e ?? null, gone === document.activeElement);
      gone.remove();
    }
    while (c.cells.length < want) {
      const cell = makeCell();
      c.cells.push(cell);
      c.card.append(cell.e);
    }
    c.cells.forEach((cell, i) => drawCell(cell, p, p.replicas[i]));
    c.was = p;
  }

  function drawCell(cell, p, r) {
    const { e } = cell;
    if (!r) {
      e.dataset.grade = "none";
      e.dataset.node = "";
      e.setAttribute("aria-label", `Partition ${p.number}: ${STATUS_WORDS[p.status]}`);
      set(e.children[1], "nobody");
      set(e.children[2], "");
      set(e.children[3], "");
      e.children[0].hidden = true;
      return;
    }
    if (cell.role !== r.role || e.children[0].hidden) e.children[0].replaceWith(mark(r.role));
    cell.role = r.role;
    e.dataset.grade = r.grade;
    e.dataset.node = r.node;
    e.classList.toggle("serves", Boolean(r.serves));
    e.classList.toggle("suspect", Boolean(r.suspect));
    e.classList.toggle("dim", selected !== "" && selected !== r.node);
    set(e.children[1], r.node);
    set(e.children[2], r.grade === "dead" ? "" : offsets(r.offsets));
    set(e.children[3], timeOf(r));
    const words = [ROLE_WORDS[r.role], r.grade === "dead" ? "its node is dead" : r.state];
    if (r.serves) words.push("serves");
    if (r.suspect) words.push("its node is suspect");
    if (r.grade !== "dead") words.push(behind(r));
    e.setAttribute("aria-label", `Partition ${p.number} on ${r.node}: ${words.join(", ")}`);
  }

  // timeOf is the time lag, or in its place what a replica is that has none to speak of.
  function timeOf(r) {
    if (r.grade === "dead") return "dead";
    if (r.grade === "suspended") return r.state === "running" ? "no lease" : r.state;
    if (r.grade === "restoring" && r.time_ms < 0) return "restoring";
    return lag(r.time_ms);
  }

  const troubled = (p) => p.status !== "served" || p.replicas.some((r) => r.grade !== "fresh" || r.suspect);

  function matches(p) {
    if (attention.checked && !troubled(p)) return false;
    if (selected && !p.replicas.some((r) => r.node === selected)) return false;
    const text = filter.value.trim().toLowerCase();
    if (!text) return true;
    return key(p.store, p.number).toLowerCase().includes(text) || p.replicas.some((r) => r.node.toLowerCase().includes(text));
  }

  function drawStoreHead(s, info) {
    const parts = state.partitionsOf(s.name);
    const served = parts.filter((p) => p.status === "served").length;
    const words = [info.kind, `${served}/${plural(info.partitions, "partition")} served`];
    if (info.followed) words.push("followed");
    if (info.partitioner) words.push(info.partitioner);
    if (info.actual_partitions) words.push(`its topics have ${info.actual_partitions} partitions now: reads are refused`);
    set(s.meta, words.join(" · "));
    s.section.classList.toggle("wrong", Boolean(info.actual_partitions));
  }

  function applyFilter() {
    let shown = 0;
    let total = 0;
    for (const s of stores.values()) {
      let any = false;
      for (const c of s.cards) {
        const show = matches(c.p);
        if (c.card.hidden === show) c.card.hidden = !show;
        any ||= show;
        shown += show;
        total++;
      }
      s.section.hidden = !any;
    }
    empty.hidden = shown > 0;
    set(empty, total === 0 ? "No node has told of a store yet." : "No partition is like that.");
    const note = shown === total ? plural(total, "store partition") : `${shown.toLocaleString("en-US")} of ${plural(total, "store partition")}`;
    set(document.getElementById("partitions-note"), note + (selected && ` · on ${selected}`) + (state.left ? ` · ${state.left.toLocaleString("en-US")} more are not shown: open this page with ?store=NAME` : ""));
    if (current?.closest(".part")?.hidden || !current?.isConnected) moveCurrent(visibleCells()[0] ?? null, false);
  }

  function visibleCells() {
    return root.querySelectorAll(".store:not([hidden]) .part:not([hidden]) .cell");
  }

  // moveCurrent makes a cell the one that the Tab key finds.
  function moveCurrent(cell, focus) {
    if (current) current.tabIndex = -1;
    current = cell;
    if (!cell) return;
    cell.tabIndex = 0;
    if (focus) cell.focus();
  }

  // Moves of the keys. A card's place is its place among the visible ones of its store.
  function move(name, cell) {
    const card = cell.closest(".part");
    const cells = [...card.querySelectorAll(".cell")];
    const at = cells.indexOf(cell);
    const grids = [...root.querySelectorAll(".store:not([hidden]) .grid")];
    const cards = (grid) => [...grid.querySelectorAll(".part:not([hidden])")];
    const grid = card.parentElement;
    const siblings = cards(grid);
    const place = siblings.indexOf(card);
    const columns = getComputedStyle(grid).gridTemplateColumns.split(" ").length;
    const pick = (c, i) => {
      const of = c ? [...c.querySelectorAll(".cell")] : [];
      return of[Math.min(i, of.length - 1)];
    };
    const otherGrid = (by) => grids[grids.indexOf(grid) + by];
    switch (name) {
      case "ArrowRight":
        return pick(siblings[place + 1] ?? (otherGrid(1) && cards(otherGrid(1))[0]), at);
      case "ArrowLeft":
        return pick(siblings[place - 1] ?? (otherGrid(-1) && cards(otherGrid(-1)).at(-1)), at);
      case "ArrowDown": {
        if (at + 1 < cells.length) return cells[at + 1];
        if (place + columns < siblings.length) return pick(siblings[place + columns], 0);
        const below = otherGrid(1) && cards(otherGrid(1));
        return below && pick(below[Math.min(place % columns, below.length - 1)], 0);
      }
      case "ArrowUp": {
        if (at > 0) return cells[at - 1];
        if (place - columns >= 0) return pick(siblings[place - columns], Infinity);
        const above = otherGrid(-1) && cards(otherGrid(-1));
        if (!above) return undefined;
        const column = place % columns;
        let i = Math.floor((above.length - 1) / columns) * columns + column;
        if (i >= above.length) i = above.length - 1;
        return pick(above[i], Infinity);
      }
      case "Home":
        return pick(siblings[0], 0);
      case "End":
        return pick(siblings.at(-1), 0);
      case "PageDown":
        return otherGrid(1) && pick(cards(otherGrid(1))[0], 0);
      case "PageUp":
        return otherGrid(-1) && pick(cards(otherGrid(-1))[0], 0);
      default:
        return undefined;
    }
  }

  function openAt(cell) {
    const { store, number } = cell.closest(".part").dataset;
    open(state.partitions.get(key(store, Number(number))), cell);
  }

  root.addEventListener("keydown", (event) => {
    const cell = event.target.closest?.(".cell");
    if (!cell || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      openAt(cell);
      return;
    }
    const next = move(event.key, cell);
    if (next) {
      catchUp(stores.get(next.closest(".part").dataset.store));
      moveCurrent(next, true);
      next.scrollIntoView({ block: "nearest" });
    }
    if (next || event.key.startsWith("Arrow")) event.preventDefault(); // at the edge the page stays where it is
  });
  root.addEventListener("focusin", (event) => {
    const cell = event.target.closest?.(".cell");
    if (cell && cell !== current) moveCurrent(cell, false);
  });
  root.addEventListener("mouseover", (event) => {
    const cell = event.target.closest?.(".cell");
    if (cell) cell.title = cell.getAttribute("aria-label");
  });
  root.addEventListener("click", (event) => {
    const card = event.target.closest?.(".part");
    if (!card) return;
    const cell = event.target.closest(".cell") ?? card.querySelector(".cell");
    moveCurrent(cell, true);
    openAt(cell);
  });
  for (const [e, on] of [[filter, "input"], [attention, "change"]]) e.addEventListener(on, applyFilter);
  compact.addEventListener("change", () => {
    chosenDensity = true;
    root.classList.toggle("compact", compact.checked);
    for (const s of stores.values()) {
      s.away &&= compact.checked;
      if (!s.away) catchUp(s);
    }
  });

  return {
    // draw draws the partitions that are named, or, with null, all of them and the stores too.
    draw(newState, changed) {
      state = newState;
      state.partitionsOf = (name) => {
        const info = state.stores.find((s) => s.name === name);
        const list = [];
        for (let n = 0; n < (info?.partitions ?? 0); n++) {
          const p = state.partitions.get(key(name, n));
          if (p) list.push(p);
        }
        return list;
      };
      if (!chosenDensity && changed === null) {
        compact.checked = state.partitions.size > COMPACT_FROM;
        root.classList.toggle("compact", compact.checked);
      }
      const infos = new Map(state.stores.map((s) => [s.name, s]));
      if (changed === null) {
        for (const [name, s] of stores) {
          if (infos.has(name)) continue;
          visibility.unobserve(s.section);
          s.section.remove();
          stores.delete(name);
        }
        state.stores.forEach((info, i) => {
          const s = stores.get(info.name) ?? makeStore(info.name);
          const parts = state.partitionsOf(info.name);
          while (s.cards.length > parts.length) {
            const gone = s.cards.pop();
            s.pending.delete(gone);
            gone.card.remove();
          }
          const fresh = document.createDocumentFragment();
          parts.forEach((p, n) => {
            let c = s.cards[n];
            if (!c) {
              c = makeCard(p);
              s.cards.push(c);
              fresh.append(c.card);
            }
            c.p = p;
            if (c.was !== p) drawCard(c, p);
          });
          s.pending.clear();
          s.grid.append(fresh);
          drawStoreHead(s, info);
          if (root.children[i] !== s.section) root.insertBefore(s.section, root.children[i] ?? null);
        });
      } else {
        const touched = new Set();
        for (const k of changed) {
          const p = state.partitions.get(k);
          const c = p && stores.get(p.store)?.cards[p.number];
          if (!c) continue;
          if (c.p.status !== p.status) touched.add(p.store);
          c.p = p;
          const s = stores.get(p.store);
          if (s.away) s.pending.add(c);
          else drawCard(c, p);
        }
        for (const name of touched) drawStoreHead(stores.get(name), infos.get(name));
      }
      applyFilter();
    },
    // select shows the partitions of one node alone, or of all when id is empty.
    select(id) {
      selected = id;
      for (const e of root.querySelectorAll(".cell")) e.classList.toggle("dim", id !== "" && e.dataset.node !== id);
      applyFilter();
    },
  };
}
