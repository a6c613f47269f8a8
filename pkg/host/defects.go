package host

import (
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/host/journal"
)

// Defects are mistakes that a test plants, to prove that a suite would find them in
// a host. The zero value plants none.
type Defects struct {
	OldFence    bool // a superseded or closed attempt is taken for a new one (G06)
	OpenFence   bool // "not started" is promised without closing the fence (G41)
	LostJournal bool // a journal that knows nothing of an action speaks for it all the same (G25)
}

// plantOldFence gives an attempt that is over the number of a newer one.
func (h *Host) plantOldFence(d *delivery, r journal.Record) {
	if over := max(r.Highest.Number, r.Closed, r.Called); h.cfg.PlantUnsafe.OldFence && d.route.Fence.Number <= over {
		d.route.Fence = fleet.Fence{Number: over + 1, Token: d.route.Fence.Token}
	}
}
