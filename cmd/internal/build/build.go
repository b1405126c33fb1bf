// Package build says what a program was built from.
package build

import (
	"runtime"
	"runtime/debug"
)

// Version names a program with its version, commit and Go version, from the build information of the executable.
func Version(program string) string {
	v, commit := "(devel)", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		v = info.Main.Version
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				commit = " " + s.Value
			}
		}
	}
	return program + " " + v + commit + " " + runtime.Version()
}
