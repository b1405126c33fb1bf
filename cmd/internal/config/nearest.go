package config

import "strings"

const (
	maxDistance = 3  // how many letters a name may be off the one that was meant
	maxMeant    = 64 // how long a name may be for others to be compared with it
)

// suggest says which of names was meant, as "; did you mean x?", or nothing when none is near.
func suggest(name string, names []string) string {
	plain := func(s string) string { return strings.ReplaceAll(strings.ToLower(s), "_", "-") }
	best, at := maxDistance+1, ""
	if len(name) > maxMeant {
		return ""
	}
	for _, known := range names {
		if d := distance(plain(name), plain(known)); d < best && d < len(known) {
			best, at = d, known
		}
	}
	if at == "" {
		return ""
	}
	return "; did you mean " + at + "?"
}

// distance is how many letters must be put in, left out or changed to make b of a (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
