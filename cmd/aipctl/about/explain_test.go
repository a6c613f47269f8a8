package about

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var made = regexp.MustCompile(`(?:fleet\.(?:Errorf\(fleet\.[A-Za-z]+, |Invalidf\()|app\.(?:Usagef|Unknown)\(|Code[A-Za-z]+ += )"([a-z][a-z_]*(?:\.[a-z_]+)+)"`)

// TestExplain_G40_EveryCodeInTheSourceIsExplained reads the source of every package:
// each code that can be printed has a meaning, at least that of its area.
func TestExplain_G40_EveryCodeInTheSourceIsExplained(t *testing.T) {
	found := 0
	for _, root := range []string{"../../../pkg", "../../../cmd"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, m := range made.FindAllStringSubmatch(string(text), -1) {
				found++
				if _, err := Explain([]string{m[1]}); err != nil {
					t.Errorf("%s makes %s, which aipctl explain does not know: give its area a line", path, m[1])
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 100 {
		t.Errorf("only %d codes were found: the source was not read", found)
	}
}

// TestExplain_G40_CodesWithATextHaveANextStep shows the table's own shape.
func TestExplain_G40_CodesWithATextHaveANextStep(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range append(codes(), areas()...) {
		if seen[e.Word] || e.Meaning == "" || e.What == "code" && e.Next == "" {
			t.Errorf("%s is there twice or lacks a meaning or a next step", e.Word)
		}
		seen[e.Word] = true
	}
}
