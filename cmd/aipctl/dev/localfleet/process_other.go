//go:build !linux

package localfleet

import (
	"errors"
	"os/exec"
	"strconv"
	"strings"
)

// look tells when a process began, in a form that is unique on this machine while it
// runs, and whether it has ended but was not reaped.
func look(pid int) (began string, zombie bool, err error) {
	out, err := exec.Command("ps", "-o", "stat=,lstart=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return "", false, err
	}
	fields := strings.Fields(string(out))
	if len(fields) < 2 {
		return "", false, errors.New("there is no such process")
	}
	return strings.Join(fields[1:], " "), strings.HasPrefix(fields[0], "Z"), nil
}
