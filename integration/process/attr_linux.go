package process

import "syscall"

// attr gives the child its own process group and has the kernel kill it when its parent dies.
func attr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
