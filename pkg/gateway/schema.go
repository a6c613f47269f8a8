package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// CodeInput is the code of an input that does not fit its capability's schema.
const CodeInput = "action.input"

// schemas caches compiled input schemas by contract digest, which names the
// schema's exact content.
type schemas struct {
	mu    sync.Mutex
	known map[fleet.Digest]*jsonschema.Schema
}

// maxSchemas bounds the cache; above it, it starts again.
const maxSchemas = 2048

const inputURL = "urn:aip:input"

var errRemote = errors.New("schemas are not loaded from elsewhere")

// nowhere refuses every reference out of a schema.
type nowhere struct{}

// Load implements jsonschema.URLLoader.
func (nowhere) Load(string) (any, error) { return nil, errRemote }

func (s *schemas) of(l registry.Listing) (*jsonschema.Schema, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if schema, ok := s.known[l.ContractDigest]; ok {
		return schema, nil
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(l.Definition.InputSchema))
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(nowhere{})
	if err := compiler.AddResource(inputURL, doc); err != nil {
		return nil, err
	}
	schema, err := compiler.Compile(inputURL)
	if err != nil {
		return nil, err
	}
	if s.known == nil || len(s.known) >= maxSchemas {
		s.known = map[fleet.Digest]*jsonschema.Schema{}
	}
	s.known[l.ContractDigest] = schema
	return schema, nil
}

// check refuses an input that does not fit; the text names the place, and holds
// nothing of the schema's other parts.
func (s *schemas) check(l registry.Listing, input json.RawMessage) error {
	schema, err := s.of(l)
	if err != nil {
		return fleet.Errorf(fleet.Internal, "catalog.schema", "the input schema of %s does not compile", l.Definition.ID).Caused(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(input))
	if err != nil {
		return fleet.Invalidf(CodeInput, "the input is not JSON").Caused(err)
	}
	if err := schema.Validate(value); err != nil {
		return fleet.Invalidf(CodeInput, "the input does not fit %s", l.Definition.ID).
			Because("%s", fleet.Printable(misfit(err), 600)).
			Advise("see its input schema: aipctl get capabilities %s -o yaml", l.Definition.ID)
	}
	return nil
}

// misfit is the validator's list of what does not fit, on one line and without its
// heading, which names a schema that only this package knows.
func misfit(err error) string {
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	if len(lines) > 1 {
		lines = lines[1:]
	}
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(strings.TrimSpace(line), "- ")
	}
	return strings.Join(lines, "; ")
}
