package demo

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
)

// A difference is a key whose value is not what it must be.
type difference struct {
	store, key string
	want, got  string // absent when the store must not have the key, or has it not
}

const absent = "(absent)"

func (d difference) String() string {
	return fmt.Sprintf("%s %q is %s, must be %s", d.store, d.key, d.got, d.want)
}

// differences compares what stores hold with what they must hold, every key of both, sorted by store and key.
func differences(want, got map[string]contents) []difference {
	var all []difference
	for store, must := range want {
		has := got[store]
		for key, value := range must {
			if v, ok := has[key]; !ok {
				all = append(all, difference{store, key, value, absent})
			} else if v != value {
				all = append(all, difference{store, key, value, v})
			}
		}
	}
	for store, has := range got {
		for key, value := range has {
			if _, ok := want[store][key]; !ok {
				all = append(all, difference{store, key, absent, value})
			}
		}
	}
	slices.SortFunc(all, func(a, b difference) int { return cmp.Or(cmp.Compare(a.store, b.store), cmp.Compare(a.key, b.key)) })
	return all
}

// ranked is a key with its number.
type ranked struct {
	key string
	n   int
}

// top gives the n keys with the largest numbers, of equal ones those first that come first by name.
func top(c contents, n int) []ranked {
	var all []ranked
	for key, value := range c {
		if v, err := strconv.Atoi(value); err == nil {
			all = append(all, ranked{key, v})
		}
	}
	slices.SortFunc(all, func(a, b ranked) int { return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.key, b.key)) })
	return all[:min(n, len(all))]
}

// sum adds the numbers of a store.
func sum(c contents) int {
	total := 0
	for _, value := range c {
		n, err := strconv.Atoi(value)
		if err == nil {
			total += n
		}
	}
	return total
}
