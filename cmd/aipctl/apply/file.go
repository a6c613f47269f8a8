package apply

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// MaxFileBytes bounds a fleet file.
const MaxFileBytes = 16 << 20

// file is the grammar of fleet.yaml.
type file struct {
	Quotas    []fleet.QuotaPolicy       `json:"quotas"`
	Types     []fleet.ConnectorType     `json:"types"`
	Instances []fleet.ConnectorInstance `json:"instances"`
	Replicas  []fleet.Replica           `json:"replicas"`
	Bindings  []fleet.CapabilityBinding `json:"bindings"`
}

// Parse reads one fleet file. Unknown fields, several documents and values that do
// not fit are refused with code fleet_file.
func Parse(data []byte) (registry.ChangeSet, error) {
	tree, err := decodeYAML(data)
	if err != nil {
		return registry.ChangeSet{}, refuse("it is not one YAML document of maps and lists: " + oneLine(err))
	}
	text, err := json.Marshal(tree)
	if err != nil {
		return registry.ChangeSet{}, refuse("it holds a key that is not text")
	}
	var f file
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		return registry.ChangeSet{}, fieldError(err)
	}
	return registry.ChangeSet{Quotas: f.Quotas, Types: f.Types, Instances: f.Instances, Replicas: f.Replicas, Bindings: f.Bindings}, nil
}

func decodeYAML(data []byte) (map[string]any, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var tree map[string]any
	if err := dec.Decode(&tree); err != nil {
		return nil, err
	}
	var more any
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("a second document follows")
	}
	return tree, nil
}

func refuse(why string) *fleet.Error {
	return fleet.Invalidf("fleet_file", "the fleet file is not valid").Because("%s", fleet.Printable(why, 400)).
		Advise("top level: quotas, types, instances, replicas, bindings; fields as aipctl get NOUN -o yaml prints them")
}

var unknownField = regexp.MustCompile(`unknown field "([^"]*)"`)

// fieldError suggests the field that was meant.
func fieldError(err error) error {
	m := unknownField.FindStringSubmatch(err.Error())
	if m == nil {
		var f *fleet.Error
		if errors.As(err, &f) {
			return f
		}
		return refuse(strings.TrimPrefix(oneLine(err), "json: "))
	}
	e := refuse("unknown field " + m[1])
	if near := app.Suggest(m[1], fieldNames()); len(near) > 0 {
		return e.Advise("did you mean %s?", strings.Join(near, " or "))
	}
	return e
}

// fieldNames lists the names of the grammar, for suggestions.
func fieldNames() []string {
	return []string{
		"quotas", "types", "instances", "replicas", "bindings",
		"id", "name", "owner", "enabled", "type_id", "tenant_id", "serving", "version_id", "weight", "config_revision",
		"secret_provider_ref", "instance_id", "endpoint", "peer", "principal_id", "principal_kind", "did", "trust_domain",
		"transport_profile", "topology", "region", "zone", "capacity_class", "capacity", "capability_id", "priority",
		"policy_revision", "credential_revision_ref", "quota_policy_ref", "ref", "revision", "global", "tenant",
		"connector_type", "instance", "binding", "tenant_retry", "circuit", "failure_threshold", "open_ms", "half_open_probes",
	}
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
