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
	return strings.TrimSpace(string(boot)) + "/" + fields[19], fields[0] == "Z" || fields[0] == "X", nil
}
