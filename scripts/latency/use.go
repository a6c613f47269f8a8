package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/aipfleet/aipfleet/cmd/aipctl/dev/localfleet"
)

// Who uses processor time for a call.
const (
	userPostgres   = "postgres"
	userServe      = "serve"
	userHosts      = "hosts"
	userConnectors = "connectors"
)

var users = []string{userPostgres, userServe, userHosts, userConnectors}

// used is the processor time of the fleet since its start, by who used it. A process
// that ended in between is not counted; of those that are measured none does.
func (s *site) used() map[string]time.Duration {
	used, children := map[string]time.Duration{}, childrenOf()
	for _, p := range s.fleet.Status() {
		own, _ := processorTime(p.PID)
		below := time.Duration(0)
		for _, pid := range children[p.PID] {
			one, _ := processorTime(pid)
			below += one
		}
		switch p.Name {
		case localfleet.ProcessPostgres:
			used[userPostgres] += own + below
		case localfleet.ProcessServe:
			used[userServe] += own
		case localfleet.ProcessLifecycle:
		default:
			used[userHosts] += own
			used[userConnectors] += below
		}
	}
	return used
}

// childrenOf lists the processes that each process started itself; nothing where
// /proc does not tell.
func childrenOf() map[int][]int {
	children := map[int][]int{}
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return children
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it ended
		}
		_, rest, ok := strings.Cut(string(text), ") ")
		var state string
		var parent int
		if _, err := fmt.Sscan(rest, &state, &parent); !ok || err != nil {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			children[parent] = append(children[parent], pid)
		}
	}
	return children
}
