package envelope_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// mutant is one change of a valid message, alone.
type mutant struct {
	what string
	text []byte
}

// A valid message with any one part changed does not open.
func TestOpen_G19_AnyOneChangeIsRefused(t *testing.T) {
	good := sealed(t)
	var tree any
	dec := json.NewDecoder(bytes.NewReader(good))
	dec.UseNumber()
	if err := dec.Decode(&tree); err != nil {
		t.Fatal(err)
	}
	var mutants []mutant
	walk("", tree, func(place string, changed any) { mutants = append(mutants, build(t, tree, place, changed)...) })
	mutants = append(mutants, textMutants(good)...)
	if len(mutants) < 300 {
		t.Fatalf("only %d changes were tried", len(mutants))
	}
	if _, err := envelope.Open(render(t, tree), expect()); err != nil {
		t.Fatalf("the unchanged tree does not open: %v", err)
	}
	for _, m := range mutants {
		if bytes.Equal(m.text, good) {
			t.Errorf("%s changes nothing", m.what)
			continue
		}
		_, err := envelope.Open(m.text, expect())
		if err == nil {
			t.Errorf("%s: opened", m.what)
		} else if code := fleet.CodeOf(err); !strings.HasPrefix(code, "envelope.") {
			t.Errorf("%s: refused without a code: %v", m.what, err)
		}
	}
}

// walk visits every value of the tree and hands out replacements for it.
func walk(place string, v any, change func(place string, to any)) {
	for _, to := range []any{nil, []any{v}, map[string]any{"v": v}, ""} {
		if !same(to, v) {
			change(place, to)
		}
	}
	switch x := v.(type) {
	case string:
		change(place, x+"x")
		change(place, " "+x)
		change(place, strings.ToUpper(x)+"\u0000")
		if x != "" {
			change(place, x[:len(x)-1])
			change(place, flipFirst(x))
		}
	case json.Number:
		change(place, json.Number(x.String()+"0"))
		change(place, json.Number("1"+x.String()))
		change(place, x.String())
	case bool:
		change(place, !x)
	case []any:
		change(place, append(slices.Clone(x), "more"))
		change(place, x[:len(x)-1])
		if len(x) > 1 && !same(x[0], x[1]) {
			change(place, append([]any{x[1], x[0]}, x[2:]...))
		}
		for i, item := range x {
			walk(fmt.Sprintf("%s/%d", place, i), item, change)
		}
	case map[string]any:
		walkObject(place, x, change)
	}
}

func walkObject(place string, x map[string]any, change func(place string, to any)) {
	added := maps.Clone(x)
	added["zzz"] = "more"
	change(place, added)
	names := slices.Sorted(maps.Keys(x))
	for i, name := range names {
		without, renamed, folded := maps.Clone(x), maps.Clone(x), maps.Clone(x)
		delete(without, name)
		delete(renamed, name)
		delete(folded, name)
		renamed[name+"_"] = x[name]
		folded[strings.ToUpper(name)] = x[name]
		change(place, without)
		change(place, renamed)
		change(place, folded)
		if other := names[(i+1)%len(names)]; !same(x[name], x[other]) {
			swapped := maps.Clone(x)
			swapped[name], swapped[other] = x[other], x[name]
			change(place, swapped)
		}
		walk(place+"/"+name, x[name], change)
	}
}

func same(a, b any) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return bytes.Equal(x, y)
}

func flipFirst(s string) string { return string(s[0]^1) + s[1:] }

// build renders the tree with the value at place replaced.
func build(t *testing.T, tree any, place string, to any) []mutant {
	t.Helper()
	changed := to
	if place != "" {
		changed = replace(tree, strings.Split(place[1:], "/"), to)
	}
	text := render(t, changed)
	what := fmt.Sprintf("%s := %.60v", place, to)
	return []mutant{{what, text}}
}

func replace(v any, path []string, to any) any {
	if len(path) == 0 {
		return to
	}
	switch x := v.(type) {
	case map[string]any:
		out := maps.Clone(x)
		out[path[0]] = replace(x[path[0]], path[1:], to)
		return out
	case []any:
		out := slices.Clone(x)
		var i int
		_, _ = fmt.Sscan(path[0], &i)
		out[i] = replace(x[i], path[1:], to)
		return out
	}
	return v
}

func render(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// textMutants are changes that a tree cannot show: every byte, cuts, and
// other spellings of the signature.
func textMutants(good []byte) []mutant {
	var out []mutant
	for i := range good {
		flipped := slices.Clone(good)
		flipped[i] ^= 0x01
		out = append(out, mutant{fmt.Sprintf("byte %d flipped", i), flipped})
		out = append(out, mutant{fmt.Sprintf("cut at %d", i), good[:i]})
	}
	start := bytes.Index(good, []byte(`"signature":"`)) + len(`"signature":"`)
	signature := string(good[start : start+88])
	spell := func(what, to string) {
		out = append(out, mutant{what, bytes.Replace(good, []byte(signature), []byte(to), 1)})
	}
	spell("signature without padding", signature[:86])
	spell("signature with a line break", signature[:40]+`\n`+signature[40:])
	spell("signature with trailing bits", signature[:85]+string(nextInAlphabet(signature[85]))+"==")
	spell("signature of zeros", strings.Repeat("A", 86)+"==")
	for name, value := range map[string]string{"sent_at": `"2026-03-01T12:00:00Z"`, "body": `{"action":1}`} {
		doubled := append([]byte(`{"`+name+`":`+value+`,`), good[1:]...)
		out = append(out, mutant{name + " twice", doubled})
	}
	return append(out, mutant{"two messages", append(slices.Clone(good), good...)})
}

// nextInAlphabet changes only the bits of the last character that padding drops.
func nextInAlphabet(c byte) byte {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	return alphabet[strings.IndexByte(alphabet, c)^1]
}
