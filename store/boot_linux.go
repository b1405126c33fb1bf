package store

import (
	"os"
	"strings"
)

// bootID differs after each start of the kernel, and with it of the page cache; empty when unknown.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
