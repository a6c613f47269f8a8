package localfleet

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
)

// look tells when a process began, in a form that is unique on this machine while it
// runs, and whether it has ended but was not reaped.
func look(pid int) (began string, zombie bool, err error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", false, err
	}
	// The name is in parentheses and may hold anything; the rest is fixed.
	after := bytes.LastIndexByte(data, ')')
	fields := strings.Fields(string(data[after+1:]))
	if after < 0 || len(fields) < 20 {
		return "", false, errors.New("the process table cannot be read")
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", false, err
	}
	// The first thread of a killed process may be a zombie while others still end; until the
	// last has, the process holds its ports and connections.
	const state, threads, started = 0, 17, 19
	last := fields[threads] == "0" || fields[threads] == "1"
	ended := fields[state] == "X" || fields[state] == "Z" && last
	return strings.TrimSpace(string(boot)) + "/" + fields[started], ended, nil
}
