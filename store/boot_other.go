//go:build !linux && !darwin

package store

// bootID is unknown here: a store that was not closed is always rebuilt.
func bootID() string {
	return ""
}
