//go:build crashpoints

package crashpoint

import (
	"os"
	"strings"
	"syscall"
	"time"
)

// Reach ends or stops the process when a test wants it at this point.
func Reach(name Name) {
	how := strike(PointFile, func(wanted string) (string, bool) { return strings.CutPrefix(wanted, string(name)+" ") })
	signal := map[string]syscall.Signal{"kill": syscall.SIGKILL, "stop": syscall.SIGSTOP}[how]
	if signal == 0 {
		return
	}
	_ = syscall.Kill(os.Getpid(), signal)
	if signal == syscall.SIGKILL {
		select {} // never further than this point
	}
}

// strike reads what a test wants and takes it, so that it happens once.
func strike(variable string, match func(wanted string) (string, bool)) string {
	path := os.Getenv(variable)
	if path == "" {
		return ""
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	how, ok := match(strings.TrimSpace(string(text)))
	if !ok || os.Rename(path, path+".hit") != nil {
		return ""
	}
	return how
}

// Clock adds what a test wants to the clock.
func Clock(now func() time.Time) func() time.Time {
	path := os.Getenv(ClockFile)
	if path == "" {
		return now
	}
	return func() time.Time {
		text, err := os.ReadFile(path)
		if err != nil {
			return now()
		}
		by, err := time.ParseDuration(strings.TrimSpace(string(text)))
		if err != nil {
			return now()
		}
		return now().Add(by)
	}
}

// Disk fails durable writes when a test wants it.
func Disk() func(write func() error) error {
	return func(write func() error) error {
		switch strike(DiskFile, func(wanted string) (string, bool) { return wanted, true }) {
		case "full":
			return syscall.ENOSPC
		case "sync":
			if err := write(); err != nil {
				return err
			}
			return syscall.EIO
		}
		return write()
	}
}
