package catalog

import (
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"sort"
)

// comparison asks whether every value that schema a accepts is accepted by schema b.
// It is sound for the keywords it knows and refuses what it does not know unless it
// is equal on both sides.
type comparison struct {
	// open lets b name a property that a neither names nor closes off: a caller of a
	// was never promised anything about names that a does not mention.
	open bool
}

// annotations say nothing about which values are valid.
var annotations = []string{"title", "description", "default", "examples", "$comment", "$schema", "$id", "deprecated", "readOnly", "writeOnly"}

var lowerBounds = []string{"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"}

var upperBounds = []string{"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"}

// understood are the keywords that accepts compares by meaning.
var understood = slices.Concat(annotations, lowerBounds, upperBounds,
	[]string{"type", "enum", "const", "properties", "additionalProperties", "required", "items"})

// accepts returns "" when b accepts all that a accepts, else what b refuses, and where.
func (c comparison) accepts(a, b any, at string) string {
	if reflect.DeepEqual(a, b) || b == true || a == false {
		return ""
	}
	bs, ok := b.(map[string]any)
	if !ok {
		return at + " accepts nothing any more"
	}
	as, ok := a.(map[string]any)
	if !ok {
		as = map[string]any{} // true
	}
	for _, rule := range []func(a, b map[string]any, at string) string{
		opaque, types, enumerations, bounds, required, c.properties, c.items,
	} {
		if why := rule(as, bs, at); why != "" {
			return why
		}
	}
	return ""
}

// opaque demands that what is not understood be equal. References and patterns give
// other keywords another meaning, so with them the whole schema must be equal.
func opaque(a, b map[string]any, at string) string {
	for _, s := range []map[string]any{a, b} {
		for _, word := range []string{"$ref", "$dynamicRef", "$defs", "definitions", "patternProperties", "prefixItems"} {
			if _, used := s[word]; used {
				return fmt.Sprintf("%s uses %s and is not equal", at, word)
			}
		}
	}
	for _, word := range sortedKeys(b) {
		if !slices.Contains(understood, word) && !reflect.DeepEqual(a[word], b[word]) {
			return fmt.Sprintf("%s changed %s", at, word)
		}
	}
	return ""
}

func types(a, b map[string]any, at string) string {
	bt := typeSet(b)
	if bt == nil {
		return ""
	}
	at2 := typeSet(a)
	if at2 == nil {
		at2 = impliedTypes(a)
	}
	if at2 == nil {
		return at + " is restricted to a type"
	}
	for _, t := range at2 {
		if !slices.Contains(bt, t) && !(t == "integer" && slices.Contains(bt, "number")) {
			return fmt.Sprintf("%s no longer takes type %s", at, t)
		}
	}
	return ""
}

func typeSet(s map[string]any) []string {
	switch t := s["type"].(type) {
	case string:
		return []string{t}
	case []any:
		set := []string{}
		for _, v := range t {
			set = append(set, fmt.Sprint(v))
		}
		return set
	}
	return nil
}

// impliedTypes gives the types of an enumeration's values, when there is one.
func impliedTypes(s map[string]any) []string {
	values, limited := choices(s)
	if !limited {
		return nil
	}
	set := []string{}
	for _, v := range values {
		switch v.(type) {
		case string:
			set = append(set, "string")
		case bool:
			set = append(set, "boolean")
		case nil:
			set = append(set, "null")
		case json.Number:
			set = append(set, "number")
		default:
			return nil
		}
	}
	return set
}

func choices(s map[string]any) (values []any, limited bool) {
	if v, ok := s["const"]; ok {
		return []any{v}, true
	}
	if v, ok := s["enum"].([]any); ok {
		return v, true
	}
	return nil, false
}

func enumerations(a, b map[string]any, at string) string {
	bv, limited := choices(b)
	if !limited {
		return ""
	}
	av, alike := choices(a)
	if !alike {
		return at + " is restricted to listed values"
	}
	for _, v := range av {
		if !contains(bv, v) {
			return fmt.Sprintf("%s no longer takes the value %v", at, v)
		}
	}
	return ""
}

func bounds(a, b map[string]any, at string) string {
	for _, word := range lowerBounds {
		if tighter(a[word], b[word], -1) {
			return fmt.Sprintf("%s raised %s", at, word)
		}
	}
	for _, word := range upperBounds {
		if tighter(a[word], b[word], 1) {
			return fmt.Sprintf("%s lowered %s", at, word)
		}
	}
	return ""
}

// tighter reports whether bound b refuses what bound a let pass. side is -1 for a
// lower bound, 1 for an upper one. What is not a number counts as tighter unless equal.
func tighter(a, b any, side int) bool {
	if b == nil || reflect.DeepEqual(a, b) {
		return false
	}
	an, aok := number(a)
	bn, bok := number(b)
	return !aok || !bok || an.Cmp(bn)*side > 0
}

func number(v any) (*big.Float, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return nil, false
	}
	f, _, err := big.ParseFloat(n.String(), 10, 256, big.ToNearestEven)
	return f, err == nil
}

func required(a, b map[string]any, at string) string {
	had, _ := a["required"].([]any)
	wants, _ := b["required"].([]any)
	for _, name := range wants {
		if !contains(had, name) {
			return fmt.Sprintf("%s now requires %v", at, name)
		}
	}
	return ""
}

func (c comparison) properties(a, b map[string]any, at string) string {
	ap, _ := a["properties"].(map[string]any)
	bp, _ := b["properties"].(map[string]any)
	aRest, aSays := a["additionalProperties"]
	if !aSays {
		aRest = true
	}
	bRest, bSays := b["additionalProperties"]
	if !bSays {
		bRest = true
	}
	for _, name := range sortedKeys(bp) {
		from, named := ap[name]
		if !named && c.open && (aRest == true) {
			continue
		}
		if !named {
			from = aRest
		}
		if why := c.accepts(from, bp[name], at+"."+name); why != "" {
			return why
		}
	}
	for _, name := range sortedKeys(ap) {
		if _, named := bp[name]; !named {
			if why := c.accepts(ap[name], bRest, at+"."+name); why != "" {
				return why
			}
		}
	}
	return c.accepts(aRest, bRest, at+" (other properties)")
}

func (c comparison) items(a, b map[string]any, at string) string {
	bi, says := b["items"]
	if !says {
		return ""
	}
	ai, says := a["items"]
	if !says {
		ai = true
	}
	return c.accepts(ai, bi, at+"[]")
}

// contains compares by value: schemas may hold arrays and objects anywhere.
func contains(list []any, v any) bool {
	return slices.ContainsFunc(list, func(w any) bool { return reflect.DeepEqual(v, w) })
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
