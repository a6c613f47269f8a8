package lifecycle

import (
	"time"

	"github.com/aipfleet/aipfleet/pkg/lease"
)

// Standing is what a host knows of its own lease at one moment.
type Standing struct {
	Epoch uint64     // 0 before the first registration
	Held  lease.Held // how long it may be trusted (G24)
	Drain bool       // the operator wants no new work here
}

// Trusted reports whether new work may start under the lease.
func (s Standing) Trusted(now time.Time) bool { return s.Epoch > 0 && s.Held.Trusted(now) }

// Standing makes a fixed standing usable where a changing one is asked for.
func (s Standing) Standing() Standing { return s }
