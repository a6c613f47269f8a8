package showcase

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// wrong is one way to spoil a package.
type wrong struct {
	name  string
	spoil func(ctx context.Context, dir string) error
	code  string // beginning of the code of the finding that must be there
}

func (s *show) wrongs() []wrong {
	return []wrong{
		{"artifact changed after signing", s.changeArtifact, "evidence.signature."},
		{"provenance left out", func(_ context.Context, dir string) error {
			return os.Remove(filepath.Join(dir, "evidence", "provenance.sigstore.json"))
		}, "evidence.provenance."},
		{"signed by a stranger", s.signAsStranger, "evidence.signature."},
	}
}

// wrongPackages makes a good next release, and tries to admit spoiled copies of it.
func (s *show) wrongPackages(ctx context.Context) error {
	before, err := s.revision(ctx)
	if err != nil {
		return err
	}
	good := filepath.Join(s.fleet.Place().Dir(), "release-1.1.0")
	if err := s.fleet.PackNext(ctx, good); err != nil {
		return err
	}
	tried, err := s.fleet.Aipctl(ctx, "admit", "release", good, "--dry-run", "-o", "json")
	if err != nil {
		return err
	}
	s.check(tried.Exit == 0, "the next release, as its publisher made it: exit code %d, no findings", tried.Exit)
	for i, w := range s.wrongs() {
		dir := filepath.Join(s.fleet.Place().Dir(), "wrong", string(rune('a'+i)))
		if err := os.CopyFS(dir, os.DirFS(good)); err != nil {
			return fleet.Errorf(fleet.Unavailable, "demo.copy", "the release cannot be copied").Caused(err)
		}
		if err := w.spoil(ctx, dir); err != nil {
			return err
		}
		r, err := s.fleet.Aipctl(ctx, "admit", "release", dir, "--yes", "--reason", "a wrong package", "-o", "json")
		if err != nil {
			return err
		}
		codes := findingCodes(append(r.Stdout, r.Stderr...))
		hit := false
		for _, c := range codes {
			hit = hit || strings.HasPrefix(c, w.code)
		}
		s.check(r.Exit == 1 && hit, "%s: exit code %d, findings %s", w.name, r.Exit, strings.Join(codes, ", "))
	}
	after, err := s.revision(ctx)
	s.check(after == before, "the catalog is at revision %d, as before", after)
	return err
}

// findingCodes collects every code of a finding in a printed document.
func findingCodes(text []byte) []string {
	var codes []string
	var walk func(v any)
	walk = func(v any) {
		switch t := v.(type) {
		case map[string]any:
			if code, ok := t["code"].(string); ok && t["satisfy"] != nil {
				codes = append(codes, code)
			}
			for _, inner := range t {
				walk(inner)
			}
		case []any:
			for _, inner := range t {
				walk(inner)
			}
		}
	}
	for dec := json.NewDecoder(strings.NewReader(string(text))); ; {
		var doc any
		if dec.Decode(&doc) != nil {
			return codes
		}
		walk(doc)
	}
}

// changeArtifact appends to the program, so that its digest is another.
func (s *show) changeArtifact(_ context.Context, dir string) error {
	f, err := os.OpenFile(filepath.Join(dir, "artifact", "desk", "ticketdesk"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString("\n# one line more\n")
	return firstOf(err, f.Close())
}

// signAsStranger replaces the signature by one of a key that nobody trusts.
func (s *show) signAsStranger(ctx context.Context, dir string) error {
	key := s.fleet.Place().Secret("stranger.pem")
	for _, args := range [][]string{
		{"release", "keygen", key},
		{"release", "sign", dir, "--key", key, "--replace"},
	} {
		r, err := s.fleet.Aipctl(ctx, args...)
		if err := firstOf(err, r.Failed(0)); err != nil {
			return err
		}
	}
	return nil
}

func (s *show) revision(ctx context.Context) (uint64, error) {
	reg, err := s.Registry(ctx)
	if err != nil {
		return 0, err
	}
	defer reg.Close()
	status, err := reg.Status(ctx)
	return status.Revision, err
}

// inspect shows the route of the action whose answer was lost.
func (s *show) inspect(ctx context.Context) error {
	shown, err := s.fleet.Aipctl(ctx, "route", "inspect", s.lost.String())
	if err != nil {
		return err
	}
	s.command(shown, 60)
	doc, err := s.fleet.Aipctl(ctx, "route", "inspect", s.lost.String(), "-o", "json")
	if err != nil {
		return err
	}
	s.inspection = doc.Stdout
	s.check(doc.Exit == 0 && json.Valid(doc.Stdout), "the same as JSON: %d bytes, kept in the summary", len(doc.Stdout))
	return nil
}
