package admission

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/aipfleet/aipfleet/pkg/envelope"
)

// decodeClosed reads one YAML or JSON document into dst through the same strict
// gate: no unknown, duplicate or case-variant member, no alias, no second
// document. It returns the document's JSON form.
func decodeClosed(data []byte, limit int64, dst any) (json.RawMessage, error) {
	doc := data
	if !looksLikeJSON(data) {
		converted, err := yamlToJSON(data)
		if err != nil {
			return nil, err
		}
		doc = converted
	}
	v, err := envelope.ParseStrict(doc, envelope.Limits{MaxBytes: int(limit), MaxDepth: 32, SafeIntegers: true})
	if err != nil {
		return nil, err
	}
	if err := v.Decode(dst, envelope.RefuseUnknown); err != nil {
		return nil, err
	}
	return v.Canonical(), nil
}

func looksLikeJSON(data []byte) bool {
	trimmed := bytes.TrimLeft(data, " \t\r\n")
	return len(trimmed) > 0 && trimmed[0] == '{'
}

// yamlToJSON converts the plain subset of YAML that has one meaning: maps with
// string keys, lists and scalars, without anchors, aliases and custom tags.
func yamlToJSON(data []byte) ([]byte, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	if err := dec.Decode(&doc); err != nil {
		return nil, fmt.Errorf("not YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	var second yaml.Node
	if err := dec.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more than one document")
	}
	var out bytes.Buffer
	if err := writeNode(&out, &doc, 0); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func writeNode(out *bytes.Buffer, n *yaml.Node, depth int) error {
	switch {
	case depth > 64:
		return fmt.Errorf("line %d: nested too deeply", n.Line)
	case n.Anchor != "" || n.Kind == yaml.AliasNode:
		return fmt.Errorf("line %d: anchors and aliases are not accepted", n.Line)
	}
	switch n.Kind {
	case yaml.DocumentNode:
		return writeNode(out, n.Content[0], depth+1)
	case yaml.MappingNode:
		return writeMapping(out, n, depth)
	case yaml.SequenceNode:
		return writeSequence(out, n, depth)
	case yaml.ScalarNode:
		return writeScalar(out, n)
	}
	return fmt.Errorf("line %d: not a map, list or scalar", n.Line)
}

func writeMapping(out *bytes.Buffer, n *yaml.Node, depth int) error {
	out.WriteByte('{')
	for i := 0; i < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str" {
			return fmt.Errorf("line %d: a key must be a plain string", key.Line)
		}
		if i > 0 {
			out.WriteByte(',')
		}
		if err := writeNode(out, key, depth+1); err != nil {
			return err
		}
		out.WriteByte(':')
		if err := writeNode(out, n.Content[i+1], depth+1); err != nil {
			return err
		}
	}
	out.WriteByte('}')
	return nil
}

func writeSequence(out *bytes.Buffer, n *yaml.Node, depth int) error {
	out.WriteByte('[')
	for i, item := range n.Content {
		if i > 0 {
			out.WriteByte(',')
		}
		if err := writeNode(out, item, depth+1); err != nil {
			return err
		}
	}
	out.WriteByte(']')
	return nil
}

func writeScalar(out *bytes.Buffer, n *yaml.Node) error {
	var value any
	switch n.ShortTag() {
	case "!!str", "!!timestamp":
		value = n.Value
	case "!!int":
		var i int64
		if err := n.Decode(&i); err != nil {
			return fmt.Errorf("line %d: %q is not a whole number in range", n.Line, n.Value)
		}
		value = i
	case "!!bool":
		var b bool
		if err := n.Decode(&b); err != nil {
			return fmt.Errorf("line %d: %q is not true or false", n.Line, n.Value)
		}
		value = b
	case "!!null":
	default:
		return fmt.Errorf("line %d: %q is not a string, whole number, true or false; quote it if it is text", n.Line, n.Value)
	}
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	out.Write(text)
	return nil
}
