package catalog

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Difference is one record that a change set creates or updates.
type Difference struct {
	Noun   string // plural, as operators type it
	ID     string
	Create bool
	Fields []Field // sorted by path
}

// Field is one field's difference, as it reads in JSON.
type Field struct{ Path, From, To string }

// maxShown bounds how much of one value a difference shows.
const maxShown = 256

// differ compares two records field by field; nil before means that it is new.
func differ(noun, id string, before, after any) (Difference, bool) {
	d := Difference{Noun: noun, ID: id, Create: before == nil}
	old, new := flatten(before), flatten(after)
	for path, to := range new {
		if from, ok := old[path]; !ok || from != to {
			d.Fields = append(d.Fields, Field{Path: path, From: shown(from), To: shown(to)})
		}
	}
	for path, from := range old {
		if _, ok := new[path]; !ok {
			d.Fields = append(d.Fields, Field{Path: path, From: shown(from)})
		}
	}
	slices.SortFunc(d.Fields, func(a, b Field) int { return bytes.Compare([]byte(a.Path), []byte(b.Path)) })
	return d, d.Create || len(d.Fields) > 0
}

func shown(v string) string { return fleet.Printable(v, maxShown) }

// flatten maps dotted paths to compact JSON values. Arrays are values.
func flatten(record any) map[string]string {
	flat := map[string]string{}
	if record == nil {
		return flat
	}
	raw, err := json.Marshal(record)
	if err != nil {
		return flat
	}
	flattenInto(flat, "", raw)
	return flat
}

// flattenInto takes an object apart. Arrays, and strings with escapes, are written anew:
// they may be spelled in more than one way.
func flattenInto(flat map[string]string, prefix string, object []byte) {
	var members map[string]json.RawMessage
	if json.Unmarshal(object, &members) != nil {
		return
	}
	for name, raw := range members {
		switch {
		case raw[0] == '{':
			flattenInto(flat, prefix+name+".", raw)
		case raw[0] == '[' || bytes.IndexByte(raw, '\\') >= 0:
			again, _ := json.Marshal(decode(raw)) // it was decoded from JSON
			flat[prefix+name] = string(again)
		default:
			flat[prefix+name] = string(raw)
		}
	}
}

func decode(raw json.RawMessage) any {
	var v any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		return string(raw)
	}
	return v
}
