//go:build unix && !linux

package demo

import "syscall"

// childAttr gives the child its own process group. Only Linux can also tie its life to its parent's.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
