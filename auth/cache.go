package auth

import "sync"

// maxCached bounds the entries of each half of a cache.
const maxCached = 4096

// A cache keeps at least the last maxCached entries put into it, and at most twice as many: what is new or used goes to the
// young half, and when that is full the old half is forgotten. It is safe for concurrent use.
type cache[K comparable, V any] struct {
	mu struct {
		sync.Mutex
		young, old map[K]V
	}
}

func (c *cache[K, V]) get(k K) (v V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v, ok = c.mu.young[k]; ok {
		return v, true
	}
	if v, ok = c.mu.old[k]; ok {
		c.putLocked(k, v)
	}
	return v, ok
}

func (c *cache[K, V]) put(k K, v V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.putLocked(k, v)
}

func (c *cache[K, V]) putLocked(k K, v V) {
	if c.mu.young == nil || len(c.mu.young) >= maxCached {
		c.mu.young, c.mu.old = make(map[K]V), c.mu.young
	}
	c.mu.young[k] = v
}
