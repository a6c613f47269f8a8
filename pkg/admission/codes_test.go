package admission_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestCodes_G40_EveryCodeIsDocumented: a code that a refusal can give stands in the
// documentation, whole or as the last part of an evidence code.
func TestCodes_G40_EveryCodeIsDocumented(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "admission.md"))
	must(t, err)
	made := regexp.MustCompile(`(?:\.add(?:Error)?\(|\bat\(&?d, |\bat\(|\brefuse\(|\brefused\()"([a-z0-9_.]+)"`)
	var codes []string
	for _, pattern := range []string{"*.go", "sigstore/*.go", "oci/*.go"} {
		files, err := filepath.Glob(pattern)
		must(t, err)
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, err := os.ReadFile(file)
			must(t, err)
			for _, m := range made.FindAllStringSubmatch(string(text), -1) {
				if !strings.HasSuffix(m[1], ".") {
					codes = append(codes, m[1])
				}
			}
		}
	}
	for _, a := range attacks() {
		code := a.want
		if rest, ok := strings.CutPrefix(code, "evidence."); ok {
			if slot, last, ok := strings.Cut(rest, "."); ok && slot != "" {
				code = last
			}
		}
		codes = append(codes, code)
	}
	slices.Sort(codes)
	codes = slices.Compact(codes)
	if len(codes) < 100 {
		t.Fatalf("only %d codes were found", len(codes))
	}
	for _, code := range codes {
		if !strings.Contains(string(doc), "`"+code+"`") && !documentedAsPart(string(doc), code) {
			t.Errorf("docs/admission.md does not name %s", code)
		}
	}
}

// documentedAsPart accepts a list's code whose last part is that of a bundle or signer.
func documentedAsPart(doc, code string) bool {
	last, ok := strings.CutPrefix(code, "revocation.")
	return ok && strings.Contains(doc, "`"+last+"`")
}
