package tui

import (
	"fmt"
	"strings"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// feed is how fresh the shown data is, and when it is read again. At most one read
// is under way; what is asked meanwhile is one more read afterwards.
type feed struct {
	interval time.Duration
	reading  bool
	again    bool // asked for while one was under way
	paused   bool
	began    time.Time
	okAt     time.Time // of the last good reading; zero before it
	revision uint64
	failures int // in a row
	err      error
	nextAt   time.Time
}

// maxBackoff bounds the time between attempts at a registry that does not answer.
const maxBackoff = 30 * time.Second

// dutyFactor keeps a slow registry from being read all the time: the pause is at
// least this many times the read.
const dutyFactor = 3

func (f feed) due(now time.Time) bool { return !f.reading && !f.paused && !now.Before(f.nextAt) }

func (f *feed) start(now time.Time) { f.reading, f.again, f.began = true, false, now }

// end takes the outcome of a read and decides when the next one is due.
func (f *feed) end(r reading) {
	f.reading, f.err = false, r.err
	if r.err != nil {
		f.failures++
		f.nextAt = r.at.Add(backoff(f.interval, f.failures))
		return
	}
	f.failures, f.okAt, f.revision = 0, r.at, r.status.Revision
	f.nextAt = r.at.Add(max(f.interval, dutyFactor*r.took))
}

// backoff doubles from the interval with each failure.
func backoff(interval time.Duration, failures int) time.Duration {
	d := interval
	for i := 0; i < failures && d < maxBackoff; i++ {
		d *= 2
	}
	return min(d, maxBackoff)
}

// stale reports whether the data is older than its rhythm explains.
func (f feed) stale(now time.Time) bool {
	if f.okAt.IsZero() || f.failures > 0 {
		return true
	}
	return !f.paused && now.Sub(f.okAt) > max(3*f.interval, 3*time.Second)
}

// badge is the word for it: LIVE, STALE, PAUSED, READING or NO DATA.
func (f feed) badge(now time.Time) string {
	if f.okAt.IsZero() && f.failures == 0 {
		return "READING"
	}
	old := age(now.Sub(f.okAt))
	switch {
	case f.okAt.IsZero():
		return "NO DATA, " + f.retry(now)
	case f.paused:
		return fmt.Sprintf("PAUSED r%d %s", f.revision, old)
	case f.stale(now):
		return "STALE " + old + ", " + f.retry(now)
	}
	return fmt.Sprintf("LIVE r%d %s", f.revision, old)
}

func (f feed) retry(now time.Time) string {
	if f.reading {
		return "reading"
	}
	if f.paused {
		return "paused"
	}
	left := f.nextAt.Sub(now)
	if left <= 0 {
		return "retry now"
	}
	return fmt.Sprintf("retry in %ds", int((left+time.Second-1)/time.Second))
}

// problem is the last error in one line: what, why, and which rule said so.
func (f feed) problem() string {
	if f.err == nil {
		return ""
	}
	return sayError(f.err)
}

// sayError writes an error in one line with its code (G40).
func sayError(err error) string {
	e := fleet.AsError(err, "dash.read")
	text := strings.Join(strings.Fields(e.Error()), " ")
	return clean(fmt.Sprintf("error[%s]: %s", e.Code, text))
}
