package pgcluster

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// runningPID is the server's process according to its own lock file, and whether
// that process lives and is this server rather than a later owner of the number.
func (p place) runningPID() (int, bool) {
	text, err := os.ReadFile(filepath.Join(p.data(), "postmaster.pid"))
	if err != nil {
		return 0, false
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil || pid <= 0 {
		return 0, false
	}
	return pid, processExists(pid) && p.isServer(pid)
}

// isServer compares the command line where the system shows it; elsewhere the
// lock file has to do.
func (p place) isServer(pid int) bool {
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil {
		return !procAvailable()
	}
	return bytes.Contains(line, []byte(p.data()))
}

func procAvailable() bool {
	_, err := os.Stat("/proc/self/stat")
	return err == nil
}

// processExists reports whether the process lives; one that ended and was not
// reaped yet does not.
func processExists(pid int) bool {
	if err := syscall.Kill(pid, 0); err != nil && err != syscall.EPERM {
		return false
	}
	stat, ok := readStat(pid)
	return !ok && !procAvailable() || ok && stat.state != 'Z'
}

type procStat struct {
	state  byte
	parent int
}

// readStat reads what Linux says about a process. The command name, in
// parentheses, may contain anything: what follows its last parenthesis counts.
func readStat(pid int) (procStat, bool) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return procStat{}, false
	}
	rest := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(rest) < 2 {
		return procStat{}, false
	}
	parent, err := strconv.Atoi(rest[1])
	return procStat{state: rest[0][0], parent: parent}, err == nil
}

// childrenOf lists the server's own processes. Each is the leader of its own
// session, so that no group signal reaches them. Where the system does not show
// them, they notice the death of their parent by themselves.
func childrenOf(parent int) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var children []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if stat, ok := readStat(pid); ok && stat.parent == parent {
			children = append(children, pid)
		}
	}
	return children
}

func waitAllGone(ctx context.Context, pids []int) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for _, pid := range pids {
		for processExists(pid) {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return fail(CodeStop, "a process of the server did not end", ctx.Err(), "")
			}
		}
	}
	return nil
}
