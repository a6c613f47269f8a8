package envelope_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// hostile is documents that some JSON reader somewhere takes, or reads in two
// ways. Each names what is wrong with it.
func hostile() map[string]string {
	return map[string]string{
		"empty":                             "",
		"only white space":                  " \n\t",
		"two values":                        "{} {}",
		"trailing comma in object":          `{"a":1,}`,
		"trailing comma in array":           `[1,]`,
		"leading comma":                     `[,1]`,
		"trailing garbage":                  `{"a":1}x`,
		"trailing NUL":                      "{}\x00",
		"byte order mark":                   "\xef\xbb\xbf{}",
		"UTF-16":                            "\xff\xfe{\x00}\x00",
		"duplicate member":                  `{"a":1,"a":2}`,
		"duplicate after unescaping":        `{"a":1,"\u0061":2}`,
		"duplicate far apart":               `{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8,"i":9,"j":10,"a":11}`,
		"duplicate at the ninth member":     `{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8,"h":9}`,
		"duplicate empty name":              `{"":1,"":2}`,
		"duplicate in nested object":        `{"x":[{"a":1,"a":1}]}`,
		"duplicate by surrogate escape":     `{"😀":1,"\ud83d\ude00":2}`,
		"single quotes":                     `{'a':1}`,
		"bare name":                         `{a:1}`,
		"number as name":                    `{1:1}`,
		"missing colon":                     `{"a" 1}`,
		"missing value":                     `{"a":}`,
		"missing comma":                     `[1 2]`,
		"comment":                           `{"a":1/*x*/}`,
		"line comment":                      "{} // x",
		"unclosed object":                   `{"a":1`,
		"unclosed array":                    `[1`,
		"unclosed string":                   `"abc`,
		"string ends in backslash":          `"abc\`,
		"wrong closing bracket":             `[1}`,
		"raw control character":             "\"a\nb\"",
		"raw NUL in string":                 "\"a\x00b\"",
		"unknown escape":                    `"\x41"`,
		"escape of a quote sign":            `"\'"`,
		"short unicode escape":              `"\u12"`,
		"signed unicode escape":             `"\u+123"`,
		"lone high surrogate":               `"\ud83d"`,
		"lone low surrogate":                `"\ude00"`,
		"high surrogate before text":        `"\ud83dx"`,
		"two high surrogates":               `"\ud83d\ud83d"`,
		"lone surrogate in a name":          `{"\ud800":1}`,
		"invalid UTF-8":                     "\"\xc3\x28\"",
		"overlong UTF-8":                    "\"\xc0\xaf\"",
		"surrogate in UTF-8":                "\"\xed\xa0\x80\"",
		"UTF-8 beyond Unicode":              "\"\xf4\x90\x80\x80\"",
		"truncated UTF-8":                   "\"\xe2\x82\"",
		"leading zero":                      `01`,
		"negative leading zero":             `-01`,
		"plus sign":                         `+1`,
		"only a minus":                      `-`,
		"no digit before the point":         `.5`,
		"no digit after the point":          `1.`,
		"empty exponent":                    `1e`,
		"signed empty exponent":             `1e+`,
		"hexadecimal number":                `0x10`,
		"NaN":                               `NaN`,
		"Infinity":                          `-Infinity`,
		"wrong case of a word":              `True`,
		"half a word":                       `nul`,
		"undefined":                         `undefined`,
		"exponent that stands for a galaxy": `1e999999999`,
		"exponent beyond integers":          `1e99999999999999999999999999`,
		"number of two thousand digits":     strings.Repeat("9", 2000),
		"nesting beyond the bound":          strings.Repeat("[", 33) + strings.Repeat("]", 33),
		"nesting of objects":                strings.Repeat(`{"a":`, 33) + "1" + strings.Repeat("}", 33),
		"nesting that never closes":         strings.Repeat("[", 1<<20),
		"no-break space":                    "\u00a0{}",
		"form feed as white space":          "\f{}",
	}
}

func TestParseStrict_G40_HostileDocumentsAreRefused(t *testing.T) {
	if n := len(hostile()); n < 40 {
		t.Fatalf("the corpus has %d documents, want at least 40", n)
	}
	for name, doc := range hostile() {
		t.Run(name, func(t *testing.T) {
			_, err := envelope.ParseStrict([]byte(doc), envelope.Limits{})
			if fleet.CodeOf(err) != envelope.CodeMalformed || !fleet.Is(err, fleet.Invalid) {
				t.Fatalf("err = %v, want code %s", err, envelope.CodeMalformed)
			}
		})
	}
}

func TestParseStrict_G40_HarmlessDocumentsPass(t *testing.T) {
	docs := map[string]string{
		"scalar": ` 1 `, "null": "null", "text": `"a\/b\u00e9\ud83d\ude00"`, "empty containers": `{"a":{},"b":[]}`,
		"64-bit integer": `18446744073709551615`, "decimal": `0.1000000000000000055511151231257827`,
		"greatest decimal128": `9.999e6144`, "names that differ in case": `{"a":1,"A":2}`,
		"depth at the bound":        strings.Repeat("[", 32) + strings.Repeat("]", 32),
		"the same name in siblings": `[{"a":1},{"a":1}]`, "DEL is no control character of JSON": "\"\x7f\"",
	}
	for name, doc := range docs {
		t.Run(name, func(t *testing.T) {
			v, err := envelope.ParseStrict([]byte(doc), envelope.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if got := string(v.Raw()); got != strings.TrimSpace(doc) {
				t.Errorf("Raw = %q, want the text as received", got)
			}
		})
	}
}

func TestParseStrict_G40_SizeIsCheckedFirst(t *testing.T) {
	_, err := envelope.ParseStrict([]byte("not json at all"), envelope.Limits{MaxBytes: 5})
	if fleet.CodeOf(err) != envelope.CodeSize {
		t.Fatalf("err = %v, want code %s", err, envelope.CodeSize)
	}
	if _, err := envelope.ParseStrict([]byte("[1,2]"), envelope.Limits{MaxBytes: 5}); err != nil {
		t.Fatalf("a document of exactly the bound: %v", err)
	}
}

func TestParseStrict_G40_SafeIntegers(t *testing.T) {
	safe := envelope.Limits{SafeIntegers: true}
	for doc, want := range map[string]bool{
		"9007199254740991": true, "-9007199254740991": true, "9007199254740992": false, "-9007199254740992": false,
		"18446744073709551616": false, "1e15": true, "1e16": false, "0.5": true, "[1,[2,{\"a\":9007199254740993}]]": false,
	} {
		_, err := envelope.ParseStrict([]byte(doc), safe)
		if (err == nil) != want {
			t.Errorf("%s: err = %v, want accepted %v", doc, err, want)
		}
	}
}

func TestValue_G40_NavigatesByExactName(t *testing.T) {
	v, err := envelope.ParseStrict([]byte(`{"a":{"b":[1,"x",null,true,false],"B":2}}`), envelope.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	b, ok := v.Get("a", "b")
	if !ok || b.Kind() != envelope.Array || len(b.Items()) != 5 {
		t.Fatalf("a.b = %v %v", b.Kind(), ok)
	}
	kinds := []envelope.Kind{envelope.Number, envelope.String, envelope.Null, envelope.True, envelope.False}
	for i, item := range b.Items() {
		if item.Kind() != kinds[i] {
			t.Errorf("item %d is %v, want %v", i, item.Kind(), kinds[i])
		}
	}
	if _, ok := v.Get("A"); ok {
		t.Error("Get folded case")
	}
	if got := b.Items()[0].Text() + b.Items()[1].Text() + b.Items()[3].Text(); got != "1x" {
		t.Errorf("texts = %q", got)
	}
	if got := string(v.Without("a", "b").Raw()); got != `{"a":{"B":2}}` {
		t.Errorf("Without = %s", got)
	}
	if got := string(v.Without("a", "b").Without("a", "B").Canonical()); got != `{"a":{}}` {
		t.Errorf("Without twice = %s", got)
	}
	if got := string(v.Without("a", "nothing").Raw()); got != string(v.Raw()) {
		t.Errorf("Without of nothing = %s", got)
	}
	var zero envelope.Value
	if _, ok := zero.Get("a"); ok || zero.Kind() != envelope.Invalid || zero.Raw() != nil || zero.Canonical() != nil {
		t.Error("the zero Value is not empty")
	}
}

// FuzzParseStrict checks that the gate is never wider than encoding/json, and
// that the canonical form means the same and is a fixed point.
func FuzzParseStrict(f *testing.F) {
	for _, doc := range hostile() {
		if len(doc) < 1000 {
			f.Add([]byte(doc))
		}
	}
	f.Add([]byte(`{"b":[1,2.50,"\u00e9\ud83d\ude00\n"],"a":{"ſ":null}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := envelope.ParseStrict(data, envelope.Limits{})
		if err != nil {
			return
		}
		if !json.Valid(data) {
			t.Fatalf("accepted what is not JSON: %q", data)
		}
		canonical := v.Canonical()
		again, err := envelope.ParseStrict(canonical, envelope.Limits{MaxBytes: len(canonical)})
		if err != nil {
			t.Fatalf("the canonical form %q is refused: %v", canonical, err)
		}
		if !bytes.Equal(again.Canonical(), canonical) {
			t.Fatalf("the canonical form of %q is no fixed point", canonical)
		}
		if !reflect.DeepEqual(decodeAny(t, data), decodeAny(t, canonical)) {
			t.Fatalf("%q and its canonical form %q differ in meaning", data, canonical)
		}
	})
}

func decodeAny(t *testing.T, data []byte) any {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("encoding/json: %v", err)
	}
	return v
}
