package demo

import "syscall"

// childAttr gives the child its own process group and has the kernel kill it when its parent dies.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
