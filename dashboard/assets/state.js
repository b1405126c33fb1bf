// What the page knows: the snapshot with all changes since. The names are those of the router's Page and Change.

export const key = (store, number) => `${store}/${number}`;

export function newState() {
  return { loaded: false, application: "", router: "", version: "", default_policy: "", nodes: new Map(), stores: [], left: 0, partitions: new Map(), restores: [], summary: null, reads: null, recent: [] };
}

const MAX_RECENT = 100; // as many as a snapshot has

// takeSnapshot replaces everything.
export function takeSnapshot(state, event) {
  const { page } = event;
  Object.assign(state, {
    loaded: true, router: event.router, version: event.version, default_policy: event.default_policy,
    application: page.application, stores: page.stores, left: page.left ?? 0, restores: page.restores, summary: page.summary, reads: page.reads, recent: page.recent,
    nodes: new Map(page.nodes.map((n) => [n.id, n])),
    partitions: new Map(page.partitions.map((p) => [key(p.store, p.number), p])),
  });
}

// takeChange folds a change in, and says which parts are others now: changed has the keys of partitions.
export function takeChange(state, event, dirty) {
  for (const part of ["application", "stores", "restores", "summary", "reads"]) {
    if (event[part] !== undefined) {
      state[part] = event[part];
      dirty.add(part);
    }
  }
  for (const id of event.gone ?? []) state.nodes.delete(id);
  for (const n of event.nodes ?? []) state.nodes.set(n.id, n);
  if (event.gone || event.nodes) dirty.add("nodes");
  for (const p of event.partitions ?? []) {
    const k = key(p.store, p.number);
    state.partitions.set(k, p);
    dirty.partitions.add(k);
  }
  if (event.stores) {
    const counts = new Map(event.stores.map((s) => [s.name, s.partitions]));
    for (const [k, p] of state.partitions) {
      if (p.number >= (counts.get(p.store) ?? 0)) state.partitions.delete(k);
    }
  }
  if (event.recent) {
    state.recent = [...state.recent, ...event.recent].slice(-MAX_RECENT);
    dirty.add("recent");
  }
}

// newDirty is a set of the parts to draw, with the partitions by their keys.
export function newDirty() {
  const dirty = new Set();
  dirty.partitions = new Set();
  return dirty;
}
