//go:build unix && !linux

package process

import "syscall"

// attr gives the child its own process group. Only Linux can also tie its life to its parent's.
func attr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
