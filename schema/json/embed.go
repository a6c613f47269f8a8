// Package schemajson answers: what does each document on the wire look like, to
// somebody who does not read Go?
//
// It embeds one JSON Schema (draft 2020-12) per document. The schemas refer to
// each other by urn:aipfleet:schema:NAME and to nothing outside, so they can be
// used offline. They accept what AIP 1.0 defines; rules that a schema cannot say
// (digests that fit, signatures, freshness) are with the packages that own them.
//
// It does not compile or apply schemas.
package schemajson

import (
	"embed"
	"io/fs"
	"strings"
)

//go:embed *.json
var files embed.FS

// Files is the schemas, one NAME.json each.
func Files() fs.FS { return files }

// URN is the identity of the schema called name, as its $id has it.
func URN(name string) string { return "urn:aipfleet:schema:" + name }

// Names lists the schemas in order, without the ending.
func Names() []string {
	entries, _ := files.ReadDir(".") // an embedded root is always there
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".json"))
	}
	return names
}

// Read is the text of the schema called name.
func Read(name string) ([]byte, error) { return files.ReadFile(name + ".json") }
