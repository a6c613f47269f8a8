package envelope

import (
	"bytes"
	"encoding"
	"encoding/json"
	"reflect"
	"strings"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// DecodeOption tightens Value.Decode.
type DecodeOption uint8

// RefuseUnknown makes Decode refuse members the destination does not have.
const RefuseUnknown DecodeOption = 1

// DecodeStrict is ParseStrict followed by Value.Decode. It refuses duplicate
// members and members that differ from the destination's only in case, both of
// which encoding/json takes; members the destination does not have are ignored.
func DecodeStrict(data []byte, lim Limits, dst any) error {
	v, err := ParseStrict(data, lim)
	if err != nil {
		return err
	}
	return v.Decode(dst)
}

// DecodeClosed is DecodeStrict that also refuses unknown members: for our own
// documents and configuration, where a misspelt member must not pass.
func DecodeClosed(data []byte, lim Limits, dst any) error {
	v, err := ParseStrict(data, lim)
	if err != nil {
		return err
	}
	return v.Decode(dst, RefuseUnknown)
}

// Decode stores the value in dst, which must be a non-nil pointer, by the rules
// of encoding/json except that names match exactly. Numbers that land in an
// interface stay json.Number. The error has code envelope.schema.
func (v Value) Decode(dst any, opts ...DecodeOption) error {
	target := reflect.TypeOf(dst)
	if target == nil || target.Kind() != reflect.Pointer || v.doc == nil {
		return schemaError("", "there is nothing to decode, or nowhere to put it")
	}
	closed := false
	for _, o := range opts {
		closed = closed || o == RefuseUnknown
	}
	if err := v.match(target.Elem(), "", closed); err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(v.Raw()))
	dec.UseNumber()
	if err := dec.Decode(dst); err != nil {
		return schemaError("", strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

// match walks the value along the destination's type and refuses names that
// encoding/json would take although they are not the field's name.
func (v Value) match(t reflect.Type, place string, closed bool) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if decodesItself(t) {
		return nil
	}
	switch t.Kind() {
	case reflect.Struct:
		return v.matchStruct(t, place, closed)
	case reflect.Map:
		return v.matchMembers(t.Elem(), place, closed)
	case reflect.Slice, reflect.Array:
		for _, item := range v.Items() {
			if err := item.match(t.Elem(), place+"[]", closed); err != nil {
				return err
			}
		}
	}
	return nil
}

func decodesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

func (v Value) matchMembers(elem reflect.Type, place string, closed bool) error {
	for _, m := range v.Members() {
		if err := m.Value.match(elem, join(place, m.Name), closed); err != nil {
			return err
		}
	}
	return nil
}

func (v Value) matchStruct(t reflect.Type, place string, closed bool) error {
	fields := map[string]reflect.Type{}
	collectFields(t, fields)
	for _, m := range v.Members() {
		ft, known := fields[m.Name]
		if known {
			if err := m.Value.match(ft, join(place, m.Name), closed); err != nil {
				return err
			}
			continue
		}
		if closed {
			return schemaError(join(place, m.Name), "the document has no such member")
		}
		for name := range fields {
			if strings.EqualFold(name, m.Name) {
				return schemaError(join(place, m.Name), "the member is spelt "+name)
			}
		}
	}
	return nil
}

// collectFields maps JSON names to field types, outer fields before promoted.
func collectFields(t reflect.Type, into map[string]reflect.Type) {
	var embedded []reflect.Type
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		ft := f.Type
		if f.Anonymous && name == "" {
			if ft.Kind() == reflect.Pointer {
				ft = ft.Elem()
			}
			if ft.Kind() == reflect.Struct {
				embedded = append(embedded, ft)
				continue
			}
		}
		if !f.IsExported() || f.Tag.Get("json") == "-" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		if _, taken := into[name]; !taken {
			into[name] = f.Type
		}
	}
	for _, e := range embedded {
		collectFields(e, into)
	}
}

func join(place, name string) string {
	if place == "" {
		return name
	}
	return place + "." + name
}

// CanonicalOf marshals doc and returns its canonical form.
func CanonicalOf(doc any) ([]byte, error) {
	v, err := valueOf(doc)
	if err != nil {
		return nil, err
	}
	return v.Canonical(), nil
}

func valueOf(doc any) (Value, error) {
	data, err := json.Marshal(doc)
	if err != nil {
		return Value{}, schemaError("", strings.TrimPrefix(err.Error(), "json: "))
	}
	return ParseStrict(data, Limits{MaxBytes: maxOwnBytes, MaxDepth: maxDepthCeiling})
}

// maxOwnBytes bounds documents this process makes itself.
const maxOwnBytes = 64 << 20

// DigestOf is the digest of a canonical form.
func DigestOf(canonical []byte) fleet.Digest { return fleet.DigestBytes(canonical) }
