package admission

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// checkManifest asks whether what the release offers can be served as it says.
func (e *evaluation) checkManifest() {
	m := e.pkg.manifest
	tools := map[string]fleet.CapabilityID{}
	for i, c := range m.Capabilities {
		place := fmt.Sprintf("%s#capabilities[%d]", ManifestFile, i)
		e.checkSchema(place+".input_schema", c.InputSchema)
		if len(c.OutputSchema) > 0 {
			e.checkSchema(place+".output_schema", c.OutputSchema)
		}
		e.checkContract(place+".contract", c)
		name := ToolName(c.ID)
		if other, taken := tools[name]; taken {
			e.found.add("manifest.tool_name_taken", place+".id", "rename one of the two capabilities", "%s and %s would both be the tool %s", other, c.ID, name)
		}
		tools[name] = c.ID
	}
	for i, impl := range m.Implementations {
		e.checkImplementation(fmt.Sprintf("%s#implementations[%d]", ManifestFile, i), impl)
	}
	e.checkOneAdapter(m)
}

// ToolName is the name under which a capability is offered to MCP clients: every
// character that MCP tool names do not have becomes "_".
func ToolName(id fleet.CapabilityID) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, id.String())
}

// sealed loads no schema from anywhere.
type sealed struct{}

var errRemoteRef = errors.New("a schema may refer to itself alone")

func (sealed) Load(string) (any, error) { return nil, errRemoteRef }

func (e *evaluation) checkSchema(place string, raw json.RawMessage) {
	const self = "aip:///schema.json"
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(raw)))
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.UseLoader(sealed{})
	if err == nil {
		err = compiler.AddResource(self, doc)
	}
	if err == nil {
		_, err = compiler.Compile(self)
	}
	var load *jsonschema.LoadURLError
	switch {
	case err == nil:
	case errors.As(err, &load):
		e.found.add("manifest.schema_remote_ref", place, "put the referred schema under $defs", "it refers to %s", load.URL)
	default:
		e.found.addError("manifest.schema_invalid", place, "write a JSON Schema that compiles (draft 2020-12 by default)", err)
	}
}

// checkContract refuses claims that contradict each other.
func (e *evaluation) checkContract(place string, c fleet.CapabilityDefinition) {
	contract := c.Contract
	if !contract.SideEffects.Mutates() && len(contract.Compensation) > 0 {
		e.found.add("manifest.contract_incoherent", place+".compensation", "drop it, or declare the side effects", "a capability with side effects %q has nothing to compensate", contract.SideEffects)
	}
	if !contract.SideEffects.Mutates() && len(contract.Transaction) > 0 {
		e.found.add("manifest.contract_incoherent", place+".transaction", "drop it, or declare the side effects", "a capability with side effects %q has nothing to commit", contract.SideEffects)
	}
	for _, part := range []struct {
		name string
		raw  json.RawMessage
	}{
		{"execution", contract.Execution}, {"data", contract.Data}, {"credentials", contract.Credentials}, {"approval", contract.Approval},
		{"sla", contract.SLA}, {"transaction", contract.Transaction}, {"compensation", contract.Compensation},
	} {
		if len(part.raw) > 0 && part.raw[0] != '{' {
			e.found.add("manifest.contract_invalid", place+"."+part.name, "write an object", "%s is not an object", part.name)
		}
	}
}

// schemaBundle is the digest over every schema of a manifest, by capability.
func schemaBundle(m fleet.Manifest) fleet.Digest {
	type schemas struct {
		Input  json.RawMessage `json:"input"`
		Output json.RawMessage `json:"output,omitempty"`
	}
	bundle := map[string]schemas{}
	for _, c := range m.Capabilities {
		bundle[c.ID.String()] = schemas{c.InputSchema, c.OutputSchema}
	}
	canonical, err := envelope.CanonicalOf(bundle)
	if err != nil { // the manifest was read strictly, so its parts encode
		return fleet.Digest{}
	}
	return fleet.DigestBytes(canonical)
}
