package memory

import "reflect"

// deepCopy returns a value that shares no slice, map or pointer with v, whatever
// fields are added to the records later. Identities, digests and times hide their
// insides and are immutable; they are copied as they are.
func deepCopy[T any](v T) T {
	out := reflect.New(reflect.TypeFor[T]()).Elem()
	out.Set(reflect.ValueOf(&v).Elem())
	detach(out)
	return out.Interface().(T)
}

func detach(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			fresh := reflect.New(v.Type().Elem())
			fresh.Elem().Set(v.Elem())
			detach(fresh.Elem())
			v.Set(fresh)
		}
	case reflect.Slice:
		detachSlice(v)
	case reflect.Map:
		detachMap(v)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				detach(v.Field(i))
			}
		}
	}
}

func detachSlice(v reflect.Value) {
	if v.IsNil() {
		return
	}
	fresh := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
	reflect.Copy(fresh, v)
	if deep(v.Type().Elem().Kind()) {
		for i := range fresh.Len() {
			detach(fresh.Index(i))
		}
	}
	v.Set(fresh)
}

func detachMap(v reflect.Value) {
	if v.IsNil() {
		return
	}
	fresh := reflect.MakeMapWithSize(v.Type(), v.Len())
	for it := v.MapRange(); it.Next(); {
		item := reflect.New(v.Type().Elem()).Elem()
		item.Set(it.Value())
		detach(item)
		fresh.SetMapIndex(it.Key(), item)
	}
	v.Set(fresh)
}

func deep(k reflect.Kind) bool {
	return k == reflect.Struct || k == reflect.Slice || k == reflect.Map || k == reflect.Pointer
}
