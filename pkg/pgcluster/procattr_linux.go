package pgcluster

import "syscall"

// processAttributes is how the server is started. A server that is not detached
// gets a fast shutdown from the kernel when the thread that started it ends.
func processAttributes(who account, detach bool) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Credential: who.credential(), Setpgid: !detach, Setsid: detach}
	if !detach {
		attr.Pdeathsig = syscall.SIGINT
	}
	return attr
}
