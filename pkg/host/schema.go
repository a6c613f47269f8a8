package host

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// inputs holds the compiled input schema of each capability.
type inputs map[fleet.CapabilityID]*jsonschema.Schema

var errRemote = errors.New("schemas are not loaded from elsewhere")

// noLoader refuses every reference that leaves the manifest.
type noLoader struct{}

// Load implements jsonschema.URLLoader.
func (noLoader) Load(string) (any, error) { return nil, errRemote }

func compileInputs(m fleet.Manifest) (inputs, error) {
	all := make(inputs, len(m.Capabilities))
	for _, c := range m.Capabilities {
		schema, err := compile(c.InputSchema)
		if err != nil {
			return nil, fleet.Errorf(fleet.NotAdmitted, "host.schema", "the input schema of %s does not compile", c.ID).Caused(err)
		}
		all[c.ID] = schema
	}
	return all, nil
}

func compile(text json.RawMessage) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(noLoader{})
	if err := compiler.AddResource(inputURL, doc); err != nil {
		return nil, err
	}
	return compiler.Compile(inputURL)
}

// validate says what is wrong with an input, or "".
func (all inputs) validate(capability fleet.CapabilityID, input json.RawMessage) string {
	schema, ok := all[capability]
	if !ok {
		return "the release does not implement the capability"
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(input))
	if err != nil {
		return "the input is not JSON"
	}
	if err := schema.Validate(value); err != nil {
		return fleet.Printable("the input does not fit its schema: "+err.Error(), 600)
	}
	return ""
}

// inputURL stands for the schema in error texts.
const inputURL = "urn:aip:input"
