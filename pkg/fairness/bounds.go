package fairness

import (
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Bounds limits what a Scheduler holds. Zero fields mean the defaults.
type Bounds struct {
	InFlight        int           // permits out; 1024
	InFlightTenant  int           // of one tenant; 128
	Queued          int           // waiting; 4096
	QueuedTenant    int           // of one tenant; 512
	QueuedBytes     int64         // of all waiting requests; 64 MiB
	RequestBytes    int64         // of one request; 4 MiB
	QueueAge        time.Duration // longest wait; 30 s
	TrackedNames    int           // capabilities with an average of their own; 4096
	InitialEstimate time.Duration // of a capability not seen yet; 100 ms
}

func (b Bounds) withDefaults() Bounds {
	number(&b.InFlight, 1024)
	number(&b.InFlightTenant, 128)
	number(&b.Queued, 4096)
	number(&b.QueuedTenant, 512)
	number(&b.QueuedBytes, 64<<20)
	number(&b.RequestBytes, 4<<20)
	number(&b.QueueAge, 30*time.Second)
	number(&b.TrackedNames, 4096)
	number(&b.InitialEstimate, 100*time.Millisecond)
	return b
}

func number[N int | int64 | time.Duration](n *N, otherwise N) {
	if *n <= 0 {
		*n = otherwise
	}
}

// Codes of the refusals.
const (
	CodeBytes   = "schedule.request_bytes" // Invalid: one request is too large
	CodeQueue   = "schedule.queue"         // CapacityExceeded: too many wait; Scope says where
	CodeAge     = "schedule.age"           // CapacityExceeded: it waited too long
	CodeExpired = "schedule.deadline"      // Unavailable: its own deadline passed while it waited
	CodeGone    = "schedule.cancelled"     // Unavailable: it was cancelled while it waited
	CodeClosed  = "schedule.closed"        // Unavailable: no new work is taken
)

func overload(scope string, after time.Duration) *fleet.Error {
	e := fleet.Errorf(fleet.CapacityExceeded, CodeQueue, "too many actions are waiting").
		Because("the bound %s is reached", scope).Advise("submit the same action again after the given time")
	e.Scope, e.RetryAfter = scope, after
	return e
}
