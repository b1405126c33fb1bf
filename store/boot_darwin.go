package store

import "syscall"

// bootID differs after each start of the kernel, and with it of the page cache; empty when unknown.
func bootID() string {
	id, err := syscall.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return id
}
