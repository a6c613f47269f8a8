// Package mutationtest answers: is a signed message with any one part changed refused?
//
// [Of] walks the JSON document of a valid message and changes one part at a time:
// every value, name and level, and bytes. [Grafts] replaces each part by the one
// that another valid message of the same signer has in its place, so that the change is
// well formed and only the signature can tell. The parts come from the document, not
// from a list: a member that is added later is changed as well.
//
// The package knows no receiver. The tests of each receiver send the changed messages
// through its real door, assert the code of every refusal, and that the unchanged
// message is accepted afterwards (G19).
package mutationtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Mutant is one change of a valid message, alone.
type Mutant struct {
	What string
	Text []byte
}

// Change makes a mutant when it is wanted: a receiver that every message reaches once
// only is shown the n-th change of its n-th message.
type Change func() Mutant

// Of gives the changes of message by part and by byte, flipping every n-th byte. None
// leaves the message as it is.
func Of(t testing.TB, message []byte, n int) []Mutant {
	t.Helper()
	return made(message, Changes(t, message, n))
}

// Changes are those of [Of], not made yet.
func Changes(t testing.TB, message []byte, n int) []Change {
	t.Helper()
	return append(parts(t, message), texts(message, n)...)
}

// Parts gives the changes of the document alone: each is well-formed JSON.
func Parts(t testing.TB, message []byte) []Mutant {
	t.Helper()
	return made(message, parts(t, message))
}

func parts(t testing.TB, message []byte) []Change {
	t.Helper()
	tree := parse(t, message)
	var out []Change
	visit(nil, tree, func(at path, v any) {
		for _, to := range replacements(v) {
			if reflect.DeepEqual(v, to) {
				continue
			}
			out = append(out, func() Mutant {
				return Mutant{fmt.Sprintf("%s := %.60s", at, render(t, to)), render(t, replace(tree, at, to))}
			})
		}
	})
	return out
}

// made makes the changes, each text once.
func made(message []byte, changes []Change) []Mutant {
	var out []Mutant
	for _, c := range changes {
		out = append(out, c())
	}
	return distinct(message, out)
}

// Grafts gives message with each part replaced by what other has in its place. Parts
// that are equal, or are in one of the two only, give none.
func Grafts(t testing.TB, message, other []byte) []Mutant {
	t.Helper()
	tree, donor := parse(t, message), parse(t, other)
	var out []Mutant
	visit(nil, tree, func(at path, v any) {
		to, found := lookup(donor, at)
		if len(at) == 0 || !found || reflect.DeepEqual(v, to) {
			return
		}
		out = append(out, Mutant{fmt.Sprintf("%s of another message", at), render(t, replace(tree, at, to))})
	})
	return distinct(message, out)
}

func distinct(message []byte, all []Mutant) []Mutant {
	seen := map[string]bool{string(message): true}
	return slices.DeleteFunc(all, func(m Mutant) bool {
		again := seen[string(m.Text)]
		seen[string(m.Text)] = true
		return again
	})
}

// path leads to a value: member names, and positions in arrays.
type path []any

// String writes the path as a JSON pointer.
func (p path) String() string {
	var b strings.Builder
	for _, step := range p {
		fmt.Fprintf(&b, "/%v", step)
	}
	return b.String()
}

// visit calls f for v and everything in it.
func visit(at path, v any, f func(path, any)) {
	f(at, v)
	switch x := v.(type) {
	case []any:
		for i, item := range x {
			visit(append(slices.Clone(at), i), item, f)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(x)) {
			visit(append(slices.Clone(at), name), x[name], f)
		}
	}
}

func lookup(v any, at path) (any, bool) {
	for _, step := range at {
		switch x := v.(type) {
		case map[string]any:
			name, _ := step.(string)
			inner, found := x[name]
			if !found {
				return nil, false
			}
			v = inner
		case []any:
			i, isIndex := step.(int)
			if !isIndex || i >= len(x) {
				return nil, false
			}
			v = x[i]
		default:
			return nil, false
		}
	}
	return v, true
}

func replace(v any, at path, to any) any {
	if len(at) == 0 {
		return to
	}
	switch x := v.(type) {
	case map[string]any:
		out, name := maps.Clone(x), at[0].(string)
		out[name] = replace(x[name], at[1:], to)
		return out
	case []any:
		out, i := slices.Clone(x), at[0].(int)
		out[i] = replace(x[i], at[1:], to)
		return out
	}
	return v
}

// replacements are what stands in the place of v: other kinds, and its neighbours.
func replacements(v any) []any {
	out := []any{nil, []any{v}, map[string]any{"v": v}, ""}
	switch x := v.(type) {
	case string:
		out = append(out, x+"x", " "+x, strings.ToUpper(x)+"\u0000")
		if x != "" {
			out = append(out, x[:len(x)-1], string(x[0]^1)+x[1:], neighbour(x))
		}
	case json.Number:
		out = append(out, json.Number("1"+x.String()), x.String())
		if x != "0" {
			out = append(out, json.Number(x.String()+"0"))
		}
		if n, err := strconv.ParseUint(x.String(), 10, 52); err == nil {
			out = append(out, json.Number(strconv.FormatUint(n+1, 10)))
		}
	case bool:
		out = append(out, !x)
	case []any:
		out = append(out, append(slices.Clone(x), "more"))
		if len(x) > 0 {
			out = append(out, x[:len(x)-1])
		}
		if len(x) > 1 && !reflect.DeepEqual(x[0], x[1]) {
			out = append(out, append([]any{x[1], x[0]}, x[2:]...))
		}
	case map[string]any:
		out = append(out, objects(x)...)
	}
	return out
}

// objects are x with one member added, dropped, renamed, or changed with another.
func objects(x map[string]any) []any {
	with := func(change func(map[string]any)) any { out := maps.Clone(x); change(out); return out }
	out := []any{with(func(m map[string]any) { m["zzz"] = "more" })}
	names := slices.Sorted(maps.Keys(x))
	for i, name := range names {
		out = append(out,
			with(func(m map[string]any) { delete(m, name) }),
			with(func(m map[string]any) { delete(m, name); m[name+"_"] = x[name] }),
			with(func(m map[string]any) { delete(m, name); m[strings.ToUpper(name)] = x[name] }),
		)
		if other := names[(i+1)%len(names)]; !reflect.DeepEqual(x[name], x[other]) {
			out = append(out, with(func(m map[string]any) { m[name], m[other] = x[other], x[name] }))
		}
	}
	return out
}

// neighbour changes the last digit of s, or else its last letter, so that what was an
// id, a time or a digest stays one.
func neighbour(s string) string {
	for _, class := range []string{"0123456789", "abcdefABCDEF", "ghijklmnopqrstuvwxyzGHIJKLMNOPQRSTUVWXYZ"} {
		if i := strings.LastIndexAny(s, class); i >= 0 {
			at := strings.IndexByte(class, s[i])
			return s[:i] + string(class[(at+1)%len(class)]) + s[i+1:]
		}
	}
	return s + "y"
}

// texts are changes that a tree cannot show: bytes, cuts, members that are there twice,
// and other spellings of the signature.
func texts(message []byte, n int) []Change {
	as := func(what string, parts ...[]byte) Change {
		return func() Mutant { return Mutant{what, slices.Concat(parts...)} }
	}
	out := []Change{
		as("two messages", message, message),
		as("sent_at twice", []byte(`{"sent_at":"2026-03-01T12:00:00Z",`), message[1:]),
		as("body twice", []byte(`{"body":{"action":1},`), message[1:]),
	}
	for i := 0; i < len(message); i += n {
		out = append(out,
			as(fmt.Sprintf("byte %d flipped", i), message[:i], []byte{message[i] ^ 1}, message[i+1:]),
			as(fmt.Sprintf("cut at %d", i), message[:i]))
	}
	return append(out, signatures(message, as)...)
}

func signatures(message []byte, as func(string, ...[]byte) Change) []Change {
	const length = 88 // padded base64 of 64 bytes
	start := bytes.LastIndex(message, []byte(`"signature":"`)) + len(`"signature":"`)
	if start < len(`"signature":"`) || start+length > len(message) {
		return nil
	}
	before, signature, after := message[:start], string(message[start:start+length]), message[start+length:]
	return []Change{
		as("signature without padding", before, []byte(signature[:86]), after),
		as("signature with a line break", before, []byte(signature[:40]+`\n`+signature[40:]), after),
		as("signature with trailing bits", before, []byte(signature[:85]+string(nextInAlphabet(signature[85]))+"=="), after),
		as("signature of zeros", before, []byte(strings.Repeat("A", 86)+"=="), after),
	}
}

// nextInAlphabet changes only the bits of the last character that padding drops.
func nextInAlphabet(c byte) byte {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	return alphabet[strings.IndexByte(alphabet, c)^1]
}

func parse(t testing.TB, message []byte) any {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(message))
	dec.UseNumber()
	var tree any
	if err := dec.Decode(&tree); err != nil {
		t.Fatal(err)
	}
	return tree
}

// render writes a tree as a message is written: without escapes for HTML.
func render(t testing.TB, v any) []byte {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
