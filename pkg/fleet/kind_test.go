package fleet

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write golden files")

// TestKind_G40_TableIsGolden pins what every surface shows of a kind: changing a row
// changes clients, scripts and dashboards.
func TestKind_G40_TableIsGolden(t *testing.T) {
	var b strings.Builder
	fmt.Fprintf(&b, "%-20s %4s %-26s %-14s %4s %5s %7s\n", "kind", "http", "code", "category", "exit", "retry", "circuit")
	for _, k := range Kinds() {
		i := k.Info()
		fmt.Fprintf(&b, "%-20s %4d %-26s %-14s %4d %5v %7d\n", i.Name, i.HTTPStatus, i.Code, i.Category, i.ExitCode, i.Retryable, i.Circuit)
	}
	const golden = "testdata/kinds.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("the table is\n%s\nthe golden file says\n%s", b.String(), want)
	}
}

func TestKind_G40_RowsAreComplete(t *testing.T) {
	names, codes := map[string]Kind{}, map[string]Kind{}
	for _, k := range Kinds() {
		i := k.Info()
		if i.Name == "" || i.HTTPStatus < 400 || i.HTTPStatus > 599 || !strings.HasPrefix(i.Code, "AIP_") || i.Category == "" || i.ExitCode < 1 {
			t.Errorf("row %d is %+v", k, i)
		}
		if _, twice := names[i.Name]; twice {
			t.Errorf("name %s comes twice", i.Name)
		}
		if _, twice := codes[i.Code]; twice {
			t.Errorf("code %s comes twice", i.Code)
		}
		names[i.Name], codes[i.Code] = k, k
		var back Kind
		if err := back.UnmarshalText([]byte(k.String())); err != nil || back != k {
			t.Errorf("%s reads back as %s, %v", k, back, err)
		}
	}
	var k Kind
	if err := k.UnmarshalText([]byte("fine")); !Is(err, Invalid) {
		t.Errorf("an unknown kind: %v", err)
	}
	if Kind(200).String() != "internal" {
		t.Errorf("a kind outside the table is %s", Kind(200))
	}
}

// "It may have happened" must never look like "it did not happen".
func TestKind_G38_UnknownIsNeverUnavailable(t *testing.T) {
	u, a := Unknown.Info(), Unavailable.Info()
	if u.Retryable || u.Circuit != CircuitCounts || u.HTTPStatus == a.HTTPStatus || u.ExitCode == a.ExitCode || u.Category == a.Category {
		t.Errorf("unknown is %+v, unavailable %+v", u, a)
	}
	for _, k := range Kinds() {
		if k != Unknown && k.Info().Circuit != CircuitNone {
			t.Errorf("%s touches the circuit: a caller's mistake must not", k)
		}
	}
}

func TestError_G40_CarriesWhatWhyNext(t *testing.T) {
	cause := errors.New("disk on fire")
	plain := Errorf(Conflict, "a.b", "thing %d", 7)
	full := plain.Because("it is %s", "taken").Advise("use %s", "another").Caused(cause)
	if plain.Why != "" || plain.Next != "" || plain.Unwrap() != nil {
		t.Errorf("the original was changed: %+v", plain)
	}
	if full.Error() != "thing 7: it is taken" || full.Next != "use another" || !errors.Is(full, cause) {
		t.Errorf("the error is %q, next %q", full, full.Next)
	}
	if got := plain.Caused(cause).Error(); got != "thing 7: disk on fire" {
		t.Errorf("without a why the cause is shown as %q", got)
	}
	wrapped := fmt.Errorf("outer: %w", full)
	if KindOf(wrapped) != Conflict || CodeOf(wrapped) != "a.b" || !Is(wrapped, Conflict) || Is(wrapped, Invalid) {
		t.Error("a wrapped error lost its kind or code")
	}
	if KindOf(cause) != Internal || CodeOf(cause) != "" || Is(nil, Internal) {
		t.Error("a foreign error has a kind of its own")
	}
	if e := AsError(cause, "x.y"); e.Kind != Internal || e.Code != "x.y" || !errors.Is(e, cause) {
		t.Errorf("a foreign error became %+v", e)
	}
	if AsError(wrapped, "x.y") != full {
		t.Error("a fleet error was wrapped again")
	}
	full.RetryAfter = time.Second
	if c := full.Because("other"); c.RetryAfter != time.Second || c.Kind != Conflict {
		t.Errorf("a copy lost fields: %+v", c)
	}
}

func TestPrintable_G40_StripsWhatMovesTheCursor(t *testing.T) {
	for in, want := range map[string]string{
		"plain ä":        "plain ä",
		"\x1b[2Jgone":    "·[2Jgone",
		"a\nb\tc\x00":    "a·b·c·",
		"x\u202ey\u200f": "x·y·",
		"bad\xffutf":     "bad·utf",
	} {
		if got := Printable(in, 64); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
	if got := Printable(strings.Repeat("ä", 100), 10); got != "äääää…" {
		t.Errorf("cut to %q", got)
	}
}
