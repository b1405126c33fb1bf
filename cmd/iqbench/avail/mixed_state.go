package avail

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/iqgate/iqgate/client"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// A damage does something to the stores of a node that is down, and tells what.
type damage func(rng *rand.Rand, state string) (string, error)

// damages kills a node, damages its state and starts it again.
func damages(do damage) func(*run, context.Context) (string, error) {
	return func(r *run, ctx context.Context) (string, error) {
		m, of, err := r.victim(ctx)
		if err != nil {
			return "", err
		}
		if r.random.IntN(2) == 0 {
			err = m.stop()
		} else {
			m.kill()
		}
		if err != nil {
			return "", err
		}
		what, err := do(r.random, r.file(m.name))
		if err != nil {
			return "", fmt.Errorf("damage the state of %s: %w", m.name, err)
		}
		detail := fmt.Sprintf("%s, active for %d partitions: %s", m.name, len(of), what)
		r.say(detail)
		if !sleep(ctx, r.awayFor(downFor)) {
			return "", context.Cause(ctx)
		}
		return detail, errors.Join(m.start(), m.listens(ctx))
	}
}

// damageRemove removes everything: the state directory, or one store's.
func damageRemove(rng *rand.Rand, state string) (string, error) {
	stores, err := storeDirs(state)
	if err != nil {
		return "", err
	}
	if rng.IntN(2) == 0 {
		dir := stores[rng.IntN(len(stores))]
		return "removed " + short(state, dir), os.RemoveAll(dir)
	}
	entries, err := os.ReadDir(state) // it may be a mount point
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(state, e.Name())))
	}
	return "removed the whole state directory", err
}

// damageCut cuts the ends off some files.
func damageCut(rng *rand.Rand, state string) (string, error) {
	return damageFiles(rng, state, func(path string, size int64) (string, error) {
		at := rng.Int64N(size)
		return fmt.Sprintf("cut %s to %d of %d bytes", short(state, path), at, size), os.Truncate(path, at)
	})
}

// damageFlip flips single bits of some files.
func damageFlip(rng *rand.Rand, state string) (string, error) {
	return damageFiles(rng, state, func(path string, size int64) (string, error) {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return "", err
		}
		defer f.Close() //nolint:errcheck // written already
		// Half of a log's bytes are zeros that stand for nothing; the beginning is more worth while.
		at := rng.Int64N(min(size, 1+rng.Int64N(size)))
		b := make([]byte, 1)
		if _, err := f.ReadAt(b, at); err != nil {
			return "", err
		}
		b[0] ^= 1 << rng.IntN(8)
		_, err = f.WriteAt(b, at)
		return fmt.Sprintf("flipped a bit of %s at %d of %d bytes", short(state, path), at, size), err
	})
}

// damageFiles does something to one to four files of the stores' databases, and their markers.
func damageFiles(rng *rand.Rand, state string, do func(path string, size int64) (string, error)) (string, error) {
	var all []string
	err := filepath.WalkDir(filepath.Join(state, "stores"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if info, err := d.Info(); err == nil && info.Size() > 0 {
			all = append(all, path)
		}
		return nil
	})
	if err != nil || len(all) == 0 {
		return "", fmt.Errorf("no files in %s: %w", state, err)
	}
	var told []string
	for range 1 + rng.IntN(4) {
		path := all[rng.IntN(len(all))]
		info, err := os.Stat(path)
		if err != nil || info.Size() == 0 {
			continue // cut to nothing just now
		}
		text, err := do(path, info.Size())
		if err != nil {
			return "", err
		}
		told = append(told, text)
	}
	return strings.Join(told, ", "), nil
}

// damageSwap exchanges the directories of two store partitions, or their databases alone.
func damageSwap(rng *rand.Rand, state string) (string, error) {
	stores, err := storeDirs(state)
	if err != nil {
		return "", err
	}
	if len(stores) < 2 {
		return "nothing to swap", nil
	}
	i := rng.IntN(len(stores))
	a, b := stores[i], stores[(i+1+rng.IntN(len(stores)-1))%len(stores)]
	what := "swapped"
	if rng.IntN(2) == 0 {
		a, b, what = filepath.Join(a, "db"), filepath.Join(b, "db"), "swapped the databases of"
	}
	aside := filepath.Join(state, "aside")
	err = errors.Join(os.Rename(a, aside), os.Rename(b, a), os.Rename(aside, b))
	return fmt.Sprintf("%s %s and %s", what, short(state, a), short(state, b)), err
}

// storeDirs are the directories of the store partitions in a state directory, sorted.
func storeDirs(state string) ([]string, error) {
	found, err := filepath.Glob(filepath.Join(state, "stores", "*", "*"))
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("no stores in %s", state)
	}
	slices.Sort(found)
	return found, err
}

func short(state, path string) string {
	if rel, err := filepath.Rel(filepath.Join(state, "stores"), path); err == nil {
		return rel
	}
	return path
}

// compareWithLog compares a replica with its changelog.
func (r *run) compareWithLog(ctx context.Context, c *client.Client, node, store string, partition int32) (broken []string) {
	res, err := c.VerifyReplica(ctx, &iqv1.VerifyReplicaRequest{Store: store, Partition: partition}, nil)
	switch {
	case err != nil:
		return []string{fmt.Sprintf("%s/%d at %s cannot be compared with its changelog: %v", store, partition, node, err)}
	case res.GetDifferences() > 0:
		return []string{fmt.Sprintf("%s/%d at %s differs from its changelog in %d of %d entries; the first: %s of key %q", store, partition, node,
			res.GetDifferences(), res.GetEntries(), res.GetFirst()[0].GetKind(), res.GetFirst()[0].GetKey())}
	}
	return nil
}
