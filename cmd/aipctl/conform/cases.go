package conform

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"go.yaml.in/yaml/v3"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/pkg/admission"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/protocol"
)

// Case is one call with what it has to come to.
type Case struct {
	Name       string             `yaml:"name"`
	Capability fleet.CapabilityID `yaml:"capability"`
	Input      any                `yaml:"input"`
	// Expect is completed (the default) or failed.
	Expect protocol.ResultStatus `yaml:"expect"`
	input  json.RawMessage
}

type caseFile struct {
	Cases []Case `yaml:"cases"`
}

const maxCases = 100

func (o *Options) readCases(p *admission.Package) ([]Case, fleet.Digest, error) {
	if o.Cases == "" {
		return nil, fleet.Digest{}, nil
	}
	data, err := o.App.ReadInput(o.Cases, 1<<20)
	if err != nil {
		return nil, fleet.Digest{}, err
	}
	cases, err := parseCases(data, p.Manifest())
	if err != nil {
		return nil, fleet.Digest{}, app.Usagef("conform.cases", "%s is not valid", o.Cases).Because("%v", err).
			Advise("list cases, each with name, capability, input and expect")
	}
	return cases, fleet.DigestBytes(data), nil
}

func parseCases(data []byte, m fleet.Manifest) ([]Case, error) {
	var file caseFile
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(file.Cases) > maxCases {
		return nil, errors.New("there are more than 100 cases")
	}
	seen := map[string]bool{}
	for i := range file.Cases {
		c := &file.Cases[i]
		if c.Name == "" || seen[c.Name] {
			return nil, errors.New("a case has no name, or another one's")
		}
		seen[c.Name] = true
		if _, offered := m.Capability(c.Capability); !offered {
			return nil, errors.New("case " + c.Name + " is about a capability that the manifest does not offer")
		}
		if c.Expect == "" {
			c.Expect = protocol.ResultCompleted
		}
		if c.Expect != protocol.ResultCompleted && c.Expect != protocol.ResultFailed {
			return nil, errors.New("case " + c.Name + " expects neither completed nor failed")
		}
		raw, err := json.Marshal(c.Input)
		if err != nil {
			return nil, err
		}
		c.input = raw
	}
	return file.Cases, nil
}
