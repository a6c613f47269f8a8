package app

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

func now() time.Time { return time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC) }

func silent() (*App, *bytes.Buffer, *bytes.Buffer) {
	var out, errs bytes.Buffer
	return New(IO{In: strings.NewReader(""), Out: &out, Err: &errs}, now, nil), &out, &errs
}

// TestOutput_G18_NoTextMovesTheCursor prints any text in every format: what comes out
// is printable, and the machine formats mean the same text.
func TestOutput_G18_NoTextMovesTheCursor(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		text := strings.ToValidUTF8(rapid.String().Draw(r, "text"), "?")
		view := View{Kind: "Things", Items: []any{map[string]any{"id": text}},
			Table: func(bool) Table { return Table{Header: []string{"ID"}, Rows: [][]string{{text}}} }}
		for _, format := range []string{"table", "name", "json", "jsonl", "yaml", "template={{range .items}}{{.id}}{{end}}"} {
			a, out, _ := silent()
			a.Output = format
			if err := a.Print(view); err != nil {
				r.Fatalf("%s: %v", format, err)
			}
			for _, c := range out.String() {
				if c != '\n' && !safeRune(c) {
					r.Fatalf("-o %s prints %U of %q", format, c, text)
				}
			}
			checkMeaning(r, format, out.Bytes(), text)
		}
	})
}

func checkMeaning(r *rapid.T, format string, data []byte, text string) {
	var doc struct {
		Items []struct{ ID string } `yaml:"items"`
	}
	var err error
	switch format {
	case "json":
		err = json.Unmarshal(data, &doc)
	case "yaml":
		err = yaml.Unmarshal(data, &doc)
	default:
		return
	}
	if err != nil || len(doc.Items) != 1 || doc.Items[0].ID != text {
		r.Fatalf("-o %s means %+v, want %q (%v):\n%s", format, doc, text, err, data)
	}
}

// TestOutput_G40_ErrorsKeepOneShape shows the error of every kind, for people and programs.
func TestOutput_G40_ErrorsKeepOneShape(t *testing.T) {
	for _, kind := range fleet.Kinds() {
		e := fleet.Errorf(kind, "area.code", "what \x1b[31mhappened").Because("why").Advise("next command")
		a, out, errs := silent()
		a.printError(e)
		want := "error[area.code]: what ·[31mhappened\ncause: why\nnext: next command\n"
		if errs.String() != want || out.Len() != 0 {
			t.Errorf("%s: stderr %q, stdout %q", kind, errs.String(), out.String())
		}
		errs.Reset()
		a.Output = "json"
		a.printError(e)
		var doc struct {
			Error struct{ Kind, Code, Cause, Next string }
		}
		if err := json.Unmarshal(errs.Bytes(), &doc); err != nil || doc.Error.Kind != kind.String() || doc.Error.Cause != "why" {
			t.Errorf("%s: %v %s", kind, err, errs.String())
		}
		if got := ExitCode(e); got != kind.Info().ExitCode {
			t.Errorf("%s ends with %d, the table says %d", kind, got, kind.Info().ExitCode)
		}
	}
}

// TestOutput_G40_TablesAreNotCutWithoutATerminal shows that a long cell stays whole,
// and that a terminal's width is kept.
func TestOutput_G40_TablesAreNotCutWithoutATerminal(t *testing.T) {
	long := strings.Repeat("x", 300)
	view := View{Kind: "Things", Table: func(bool) Table { return Table{Header: []string{"A", "B"}, Rows: [][]string{{long, "end"}}} }}
	a, out, _ := silent()
	a.Width = 80
	if err := a.Print(view); err != nil || !strings.Contains(out.String(), long+"  end\n") {
		t.Errorf("cut without a terminal: %v\n%s", err, out)
	}
	a, out, _ = silent()
	a.Width, a.OutTTY = 80, true
	if err := a.Print(view); err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(out.String(), "\n") {
		if n := len([]rune(line)); n > 80 {
			t.Errorf("%d columns on a terminal of 80", n)
		}
	}
}

// TestOutput_G40_ColourIsExtra shows that a status is a word and a glyph with and
// without colour.
func TestOutput_G40_ColourIsExtra(t *testing.T) {
	view := View{Kind: "Things", Table: func(bool) Table { return Table{Header: []string{"S"}, Rows: [][]string{{Status("ready")}}} }}
	for choice, want := range map[string]string{"always": "\x1b[32m● ready\x1b[0m", "never": "\n● ready", "auto": "\n● ready"} {
		a, out, _ := silent()
		a.Color = choice
		if err := a.Print(view); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("--color %s: %q (%v)", choice, out.String(), err)
		}
	}
}

// TestSuggest_G40_NearestFirst shows what counts as a typing error.
func TestSuggest_G40_NearestFirst(t *testing.T) {
	known := []string{"replicas", "replica", "routes", "route", "drain"}
	for word, want := range map[string]string{"replcas": "replicas", "darin": "drain", "rout": "route", "DRAIN": "drain", "zebra": ""} {
		got := Suggest(word, known)
		if want == "" && len(got) > 0 || want != "" && (len(got) == 0 || got[0] != want) {
			t.Errorf("%s suggests %v, want %s first", word, got, want)
		}
	}
}

// TestScan_G40_FormatIsFoundBeforeFlagsParse keeps the error's shape when parsing fails.
func TestScan_G40_FormatIsFoundBeforeFlagsParse(t *testing.T) {
	for line, want := range map[string]string{"get -o json": "json", "get -ojson": "json", "--output=yaml x": "yaml", "x --output jsonl": "jsonl", "x -- -o json": "table", "x": "table"} {
		if got := scanOutput(strings.Fields(line), "table"); got != want {
			t.Errorf("%q is %s, want %s", line, got, want)
		}
	}
}
