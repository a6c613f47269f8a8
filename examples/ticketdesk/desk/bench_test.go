package desk

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"
)

func benchDesk(b *testing.B) *Desk {
	b.Helper()
	d, err := Open(Options{Dir: b.TempDir(), Token: "t", Now: func() time.Time { return noon }, Crash: func() {}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { d.Close() })
	return d
}

// One effect, with its flush to the disk.
func BenchmarkOpenTicket(b *testing.B) {
	d := benchDesk(b)
	for n := 0; b.Loop(); n++ {
		if _, err := d.OpenTicket(context.Background(), Call{IdempotencyKey: fmt.Sprint(n)}, "x", "", ""); err != nil {
			b.Fatal(err)
		}
	}
}

// What one effect costs at least: the same bytes, appended and flushed, without a
// desk around them. Compare BenchmarkOpenTicket with this.
func BenchmarkAppendAndFlushAlone(b *testing.B) {
	file, err := os.CreateTemp(b.TempDir(), "floor")
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	line := make([]byte, 500)
	for b.Loop() {
		if _, err := file.Write(line); err != nil {
			b.Fatal(err)
		}
		if err := file.Sync(); err != nil {
			b.Fatal(err)
		}
	}
}

// The look-up by key after a lost answer, in a store of 10 000 effects.
func BenchmarkFindOperation(b *testing.B) {
	d := benchDesk(b)
	for n := range 10_000 {
		key := fmt.Sprint(n)
		effect := Effect{Sequence: d.state.last + 1, Tool: OpenTicketTool, TicketID: key, IdempotencyKey: key}
		if err := d.state.apply(effect); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		found, err := d.FindOperation("5000")
		if err != nil || !found.Found {
			b.Fatal(found, err)
		}
	}
}
