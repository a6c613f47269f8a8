package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// machine is where and under which settings the run was made.
type machine struct {
	System     string    `json:"system"`
	Processor  string    `json:"processor"`
	Processors int       `json:"processors"`
	MemoryGiB  float64   `json:"memory_gib"`
	Go         string    `json:"go"`
	PostgreSQL string    `json:"postgresql"`
	Settings   []string  `json:"settings"`
	Started    time.Time `json:"started"`
	Seconds    float64   `json:"seconds"`
	LoadBefore string    `json:"load_before"`
	LoadAfter  string    `json:"load_after"`
	Quick      bool      `json:"quick"`
}

func describeMachine(quick bool) machine {
	return machine{
		System: runtime.GOOS + "/" + runtime.GOARCH, Processor: lineOf("/proc/cpuinfo", "model name"), Processors: runtime.NumCPU(),
		MemoryGiB: rounded(float64(memoryKiB()) / (1 << 20)), Go: runtime.Version(), Started: time.Now().UTC().Truncate(time.Second),
		LoadBefore: load(), Quick: quick,
	}
}

// load is the load average, or "" where there is none to read.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	fields := strings.Fields(string(text))
	return strings.Join(fields[:min(3, len(fields))], " ")
}

// lineOf returns the value of the first "name: value" line of a file.
func lineOf(path, name string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func memoryKiB() int {
	n, _ := strconv.Atoi(strings.TrimSuffix(lineOf("/proc/meminfo", "MemTotal"), " kB")) // 0 when it is not known
	return n
}

// sharedBuffers is a quarter of the memory, between 256 MB and 4 GB.
func sharedBuffers() string {
	quarter := memoryKiB() / 4 / 1024
	return fmt.Sprintf("%dMB", min(max(quarter, 256), 4096))
}

// cpuMeter reads processor time: the number that other load on the machine moves least.
type cpuMeter struct {
	server int // process id of the server
}

// read returns the time that the server's processes and this one have used. The
// server's is 0 where /proc does not tell.
func (m cpuMeter) read() (server, own time.Duration) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err == nil {
		own = time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", m.server, m.server))
	if err != nil {
		return 0, own
	}
	for _, pid := range strings.Fields(string(children)) {
		text, err := os.ReadFile("/proc/" + pid + "/schedstat")
		if err != nil {
			continue // it ended
		}
		nanoseconds, _, _ := strings.Cut(string(text), " ")
		n, _ := strconv.ParseInt(nanoseconds, 10, 64)
		server += time.Duration(n)
	}
	return server, own
}
