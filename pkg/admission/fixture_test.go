package admission_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/aipfleet/aipfleet/pkg/admission"
)

const releaseYAML = `type:
  id: ctype_desk
  name: desk
owner: desk-team
version: "1.0.0"
version_id: cver_desk1
release_sequence: 3
aip_versions: ["1.0"]
artifact:
  path: artifact/desk-mcp
`

const manifestJSON = `{
  "aip_version": "1.0", "name": "desk", "version": "1.0.0",
  "capabilities": [
    {"id": "desk:open", "name": "open", "kind": "tool",
     "input_schema": {"type": "object", "properties": {"title": {"type": "string"}}},
     "contract": {"side_effects": "write", "idempotency": "provider_key"}},
    {"id": "desk:read", "name": "read", "kind": "tool",
     "input_schema": {"type": "object"}, "output_schema": {"type": "object"},
     "contract": {"side_effects": "read", "idempotency": "natural"}}
  ],
  "implementations": [
    {"capability_id": "desk:open", "adapter": "mcp", "tool": "open", "reconcile_tool": "find"},
    {"capability_id": "desk:read", "adapter": "mcp", "tool": "read"}
  ]
}`

const artifactBytes = "#!/bin/sh\necho desk\n"

// writeFiles writes files below a new directory; a value of "" leaves a name out.
func writeFiles(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		if content == "" {
			continue
		}
		full := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func baseFiles() map[string]string {
	return map[string]string{
		"release.yaml":      releaseYAML,
		"manifest.json":     manifestJSON,
		"artifact/desk-mcp": artifactBytes,
	}
}

func openPackage(t testing.TB, dir string) *admission.Package {
	t.Helper()
	p, found := admission.ReadPackage(dir, admission.Limits{})
	if len(found) > 0 {
		t.Fatalf("package refused: %v", found)
	}
	return p
}

func codes(found []admission.Finding) []string {
	var list []string
	for _, f := range found {
		list = append(list, f.Code)
	}
	return list
}
