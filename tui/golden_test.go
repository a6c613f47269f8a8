package tui

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name+".txt")
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got), rewrite with -update when it is meant:\n%s", name, diff)
	}
}

// fits checks that a frame is exactly as high as the screen and nowhere wider.
func fits(t *testing.T, m Model, name string) {
	t.Helper()
	lines := strings.Split(m.View(), "\n")
	if len(lines) != m.height {
		t.Errorf("%s: %d lines on a screen of %d", name, len(lines), m.height)
	}
	for i, l := range lines {
		if w := ansi.StringWidth(l); w > m.width {
			t.Errorf("%s: line %d is %d cells wide on a screen of %d: %q", name, i, w, m.width, l)
		}
	}
}

// walks are the ways to every screen and page.
func walks() map[string][]string {
	return map[string][]string{
		"overview":         {"1"},
		"replicas":         {"2"},
		"replicas-filter":  {"2", "/", "status=draining", "enter"},
		"replicas-typing":  {"2", "/", "sta"},
		"replicas-sort":    {"2", "sss", "S"},
		"replica":          {"2", "down", "enter"},
		"replica-circuit":  {"2", "/globex_b1", "enter", "enter"},
		"routes":           {"4"},
		"routes-none":      {"4", "/", "nothing here", "enter"},
		"route-lost":       {"4", "/act_lost", "enter", "enter"},
		"route-again":      {"4", "/act_again", "enter", "enter"},
		"explain":          {"4", "/act_held", "enter", "w"},
		"explain-lost":     {"4", "/act_lost", "enter", "enter", "w"},
		"json":             {"4", "/act_again", "enter", "y"},
		"help":             {"?"},
		"command":          {":", "re"},
		"not-this-version": {"5"},
	}
}

// TestFrames_G40_EveryScreenIsGolden shows each screen at two sizes as it must look.
func TestFrames_G40_EveryScreenIsGolden(t *testing.T) {
	for name, keys := range walks() {
		for _, size := range []struct {
			name string
			w, h int
		}{{"80x24", 80, 24}, {"120x40", 120, 40}} {
			t.Run(name+"-"+size.name, func(t *testing.T) {
				w := populated(t)
				d := drive(w, w.config(), size.w, size.h)
				w.advance(300 * time.Millisecond)
				d.press(keys...)
				w.advance(300 * time.Millisecond)
				fits(t, d.m, name)
				golden(t, name+"-"+size.name, d.m.Frame())
			})
		}
	}
}

// TestFrames_G18_EverySizeFits draws every screen at many sizes and in every theme:
// nothing is wider or higher than the terminal, whatever the text of records is.
func TestFrames_G18_EverySizeFits(t *testing.T) {
	for name, keys := range walks() {
		w := populated(t)
		d := drive(w, w.config(), 80, 24)
		d.press(keys...)
		for _, theme := range Themes() {
			d.m.config.Theme, _ = FindTheme(theme)
			for _, size := range [][2]int{{60, 12}, {61, 13}, {79, 20}, {100, 30}, {250, 70}} {
				m := d.m
				m.width, m.height = size[0], size[1]
				m.settle()
				fits(t, m, name+" in "+theme)
			}
		}
	}
}

// TestFrames_G40_SmallAndStale shows the smallest screen, one that is too small, and
// old data.
func TestFrames_G40_SmallAndStale(t *testing.T) {
	w := populated(t)
	d := drive(w, w.config(), 60, 12)
	golden(t, "overview-60x12", d.m.Frame())
	d.press("4")
	golden(t, "routes-60x12", d.m.Frame())
	w.breaks(errAway)
	w.advance(12 * time.Second)
	d.refresh()
	golden(t, "stale-60x12", d.m.Frame())
	d.m.width, d.m.height = 40, 8
	golden(t, "too-small", d.m.Frame())
	fresh := drive(w, w.config(), 80, 24)
	golden(t, "no-data-80x24", fresh.m.Frame())
}
