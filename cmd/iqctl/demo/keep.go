package demo

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// keepText says what to type next.
func (r *run) keepText() string {
	iqctl := iqctlCommand(os.Args[0]) + " --router " + r.router
	var b strings.Builder
	fmt.Fprintf(&b, "\nIt goes on running, until Ctrl-C. In another terminal:\n")
	for _, line := range []string{
		"get by-dest ATL --policy max_staleness=10s",
		"get by-carrier UA --policy strong",
		"get by-tail N14228 --explain",
		"explain by-dest ATL --policy strong",
		"status",
		"lag",
	} {
		fmt.Fprintf(&b, "  %s %s\n", iqctl, line)
	}
	fmt.Fprintf(&b, "Kafka is at %s, the stores and logs are in %s.\n", r.brokers, r.dir)
	return b.String()
}

// iqctlCommand is how the user can call this program again: what `go run` has built is gone when it ends.
func iqctlCommand(arg0 string) string {
	if strings.Contains(filepath.ToSlash(arg0), "/go-build") {
		return "go run ./cmd/iqctl"
	}
	return arg0
}
