package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/template"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// metadata is the head of a document.
type metadata struct {
	Revision uint64 `json:"revision,omitempty"`
	NextPage string `json:"next_page,omitempty"`
}

// listDoc and itemDoc are the two shapes of a document.
type listDoc struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   metadata `json:"metadata"`
	Items      []any    `json:"items"`
}

type itemDoc struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   metadata `json:"metadata"`
	Item       any      `json:"item"`
}

func (v View) document() any {
	head := metadata{Revision: v.Revision, NextPage: v.NextPage}
	if v.Item != nil {
		return itemDoc{APIVersion, v.Kind, head, v.Item}
	}
	items := v.Items
	if items == nil {
		items = []any{}
	}
	return listDoc{APIVersion, v.Kind, head, items}
}

// list returns the items, or the one item as a list.
func (v View) list() []any {
	if v.Item != nil {
		return []any{v.Item}
	}
	return v.Items
}

func (a *App) printJSON(v View) error {
	data, err := encode(v.document(), "  ")
	if err != nil {
		return err
	}
	return a.write(data)
}

func (a *App) printJSONL(v View) error {
	for _, item := range v.list() {
		data, err := encode(item, "")
		if err != nil {
			return err
		}
		if err := a.write(data); err != nil {
			return err
		}
	}
	return nil
}

// encode marshals without HTML escapes and with every unprintable character escaped.
func encode(v any, indent string) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(v); err != nil {
		return nil, fleet.Errorf(fleet.Internal, "output.encode", "the result cannot be written as JSON").Caused(err)
	}
	return escapeJSON(b.Bytes()), nil
}

// escapeJSON writes every character that could move a terminal's cursor, or turn
// text round, as \uXXXX. The document means the same.
func escapeJSON(data []byte) []byte {
	var b bytes.Buffer
	for _, r := range string(data) {
		if safeRune(r) {
			b.WriteRune(r)
			continue
		}
		if r > 0xffff {
			hi, lo := (r-0x10000)>>10+0xd800, (r-0x10000)&0x3ff+0xdc00
			fmt.Fprintf(&b, `\u%04x\u%04x`, hi, lo)
			continue
		}
		fmt.Fprintf(&b, `\u%04x`, r)
	}
	return b.Bytes()
}

func safeRune(r rune) bool {
	return r == '\n' || r == utf8.RuneError || unicode.IsPrint(r)
}

func (a *App) printYAML(v View) error {
	value, err := generic(v.document())
	if err != nil {
		return err
	}
	data, err := yaml.Marshal(yamlNode(value))
	if err != nil {
		return fleet.Errorf(fleet.Internal, "output.encode", "the result cannot be written as YAML").Caused(err)
	}
	return a.write(escapeJSON(data))
}

// yamlNode makes the tree of a generic value, keys sorted. Text with line breaks or
// unprintable characters is in double quotes, in which \uXXXX means what it does in JSON.
func yamlNode(value any) *yaml.Node {
	switch v := value.(type) {
	case map[string]any:
		n := &yaml.Node{Kind: yaml.MappingNode}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			n.Content = append(n.Content, textNode(key), yamlNode(v[key]))
		}
		return n
	case []any:
		n := &yaml.Node{Kind: yaml.SequenceNode}
		for _, e := range v {
			n.Content = append(n.Content, yamlNode(e))
		}
		return n
	case string:
		return textNode(v)
	case nil:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Value: fmt.Sprint(value)}
}

func textNode(text string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
	if strings.ContainsFunc(text, func(r rune) bool { return !safeRune(r) || r == '\n' }) {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

// generic turns a value into maps and slices by way of its JSON form.
func generic(v any) (any, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, fleet.Errorf(fleet.Internal, "output.encode", "the result cannot be encoded").Caused(err)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var out any
	if err := dec.Decode(&out); err != nil {
		return nil, fleet.Errorf(fleet.Internal, "output.encode", "the result cannot be encoded").Caused(err)
	}
	return plainNumbers(out), nil
}

// plainNumbers makes json.Number an int64, uint64 or float64.
func plainNumbers(v any) any {
	switch x := v.(type) {
	case map[string]any:
		for k, e := range x {
			x[k] = plainNumbers(e)
		}
	case []any:
		for i, e := range x {
			x[i] = plainNumbers(e)
		}
	case json.Number:
		return number(x)
	}
	return v
}

func number(n json.Number) any {
	if i, err := n.Int64(); err == nil {
		return i
	}
	var u uint64
	if err := json.Unmarshal([]byte(n), &u); err == nil {
		return u
	}
	f, _ := n.Float64()
	return f
}

func (a *App) printTemplate(v View, text string) error {
	t, err := template.New("output").Parse(text)
	if err != nil {
		return Usagef("usage.template", "the template is not valid").Because("%v", err)
	}
	value, err := generic(v.document())
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, value); err != nil {
		return Usagef("usage.template", "the template does not fit the result").Because("%v", err)
	}
	return a.writeLines(b.String())
}

func (a *App) printNames(v View) error {
	for _, item := range v.list() {
		if err := a.writeLines(v.nameOf(item) + "\n"); err != nil {
			return err
		}
	}
	return nil
}

func (v View) nameOf(item any) string {
	if v.Name != nil {
		return v.Name(item)
	}
	if value, err := generic(item); err == nil {
		if m, ok := value.(map[string]any); ok {
			for _, key := range []string{"id", "name", "ref", "action_id", "tenant_id"} {
				if s, ok := m[key].(string); ok && s != "" {
					return s
				}
			}
		}
	}
	return v.Kind
}

// writeLines writes text with every line made printable.
func (a *App) writeLines(text string) error {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = printableLine(line)
	}
	return a.write([]byte(strings.Join(lines, "\n")))
}

func (a *App) write(data []byte) error {
	if _, err := a.Out.Write(data); err != nil {
		return fleet.Errorf(fleet.Internal, "output.write", "the result cannot be written").Caused(err)
	}
	return nil
}

// Raw writes bytes that are the result as they stand: a stored document, a
// completion script. Use it only for content that this program or a checksum vouches for.
func (a *App) Raw(r io.Reader) error {
	if _, err := io.Copy(a.Out, r); err != nil {
		return fleet.Errorf(fleet.Internal, "output.write", "the result cannot be written").Caused(err)
	}
	return nil
}

// SafeJSON is a JSON document with every unprintable character written as an
// escape. It means the same, and its bytes differ only where a terminal could be misled.
func SafeJSON(data []byte) []byte { return escapeJSON(data) }
