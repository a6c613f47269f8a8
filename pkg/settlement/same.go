package settlement

import (
	"reflect"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Same reports whether given is exactly the stored assignment: every field of the
// route and of the attempt (G06, G07), times as instants. Otherwise it names the
// first field that differs. The settled part of the attempt may be absent in what
// was given, since it is written after the attempt was handed out; when present it
// must be the stored one. Earlier attempts are not part of the identity.
func Same(stored, given fleet.Assignment) (field string, same bool) {
	if given.Attempt.Settlement == nil {
		stored.Attempt.Settlement = nil
	}
	if f := differs("route", reflect.ValueOf(stored.Route), reflect.ValueOf(given.Route)); f != "" {
		return f, false
	}
	f := differs("attempt", reflect.ValueOf(stored.Attempt), reflect.ValueOf(given.Attempt))
	return f, f == ""
}

var timeType = reflect.TypeFor[time.Time]()

// differs walks exported fields, so that a field added later is compared without
// anybody remembering to.
func differs(path string, a, b reflect.Value) string {
	switch {
	case a.Type() == timeType:
		if at, bt := a.Interface().(time.Time), b.Interface().(time.Time); !at.Equal(bt) {
			return path
		}
		return ""
	case a.Kind() == reflect.Pointer:
		if a.IsNil() != b.IsNil() {
			return path
		}
		if a.IsNil() {
			return ""
		}
		return differs(path, a.Elem(), b.Elem())
	case a.Kind() == reflect.Slice:
		return slicesDiffer(path, a, b)
	case a.Kind() == reflect.Struct && hasExported(a.Type()):
		return structsDiffer(path, a, b)
	case a.Interface() != b.Interface():
		return path
	}
	return ""
}

func slicesDiffer(path string, a, b reflect.Value) string {
	if a.Len() != b.Len() {
		return path
	}
	for i := range a.Len() {
		if f := differs(path, a.Index(i), b.Index(i)); f != "" {
			return f
		}
	}
	return ""
}

func structsDiffer(path string, a, b reflect.Value) string {
	for i := range a.NumField() {
		name := path + "." + a.Type().Field(i).Name
		if f := differs(name, a.Field(i), b.Field(i)); f != "" {
			return f
		}
	}
	return ""
}

func hasExported(t reflect.Type) bool {
	for i := range t.NumField() {
		if t.Field(i).IsExported() {
			return true
		}
	}
	return false
}
