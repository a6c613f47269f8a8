//go:build !linux

package pgcluster

import "syscall"

// processAttributes is how the server is started. Without a parent death signal,
// a server outlives a parent that is killed; StopDir ends it.
func processAttributes(who account, detach bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: who.credential(), Setpgid: !detach, Setsid: detach}
}
