// Package build says what a program was built from.
package build

import (
	"runtime"
	"runtime/debug"
)

// version and commit are what a release says of itself, set by the linker: -X .../build.version=v1.2.3. A program that was
// built from an archive of the sources has nowhere else to know it from.
var version, commit string

// Version names a program with its version, commit and Go version. Where the linker was told nothing they come from the build
// information of the executable.
func Version(program string) string {
	v, c := known()
	if c != "" {
		c = " " + c
	}
	return program + " " + v + c + " " + runtime.Version()
}

// Short is the version alone, or the beginning of the commit where there is no version.
func Short() string {
	const digits = 12
	v, c := known()
	if v == devel && len(c) >= digits {
		return c[:digits]
	}
	return v
}

// devel is the version of a program that does not know its own.
const devel = "(devel)"

func known() (v, c string) {
	v, c = version, commit
	if info, ok := debug.ReadBuildInfo(); ok {
		if v == "" {
			v = info.Main.Version
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && c == "" {
				c = s.Value
			}
		}
	}
	if v == "" {
		v = devel
	}
	return v, c
}
