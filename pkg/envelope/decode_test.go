package envelope_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

type base struct {
	Kind string `json:"kind"`
}

type item struct {
	Subject string `json:"subject"`
}

type document struct {
	base
	Items  []item           `json:"items"`
	ByName map[string]*item `json:"by_name"`
	Raw    json.RawMessage  `json:"raw"`
	Free   any              `json:"free"`
	Hidden string           `json:"-"`
	Plain  string
}

func TestDecodeStrict_G40_NamesMatchExactly(t *testing.T) {
	refused := map[string]string{
		"case variant":              `{"KIND":"x"}`,
		"case variant beside":       `{"kind":"x","Kind":"y"}`,
		"case folding beyond ASCII": `{"items":[{"ſubject":"x"}]}`,
		"nested in a slice":         `{"items":[{"Subject":"x"}]}`,
		"nested in a map":           `{"by_name":{"a":{"SUBJECT":"x"}}}`,
		"field without a tag":       `{"plain":"x"}`,
		"duplicate":                 `{"kind":"x","kind":"y"}`,
		"duplicate after escape":    `{"kind":"x","\u006bind":"y"}`,
		"wrong type":                `{"kind":1}`,
	}
	for name, doc := range refused {
		t.Run(name, func(t *testing.T) {
			var d document
			if err := envelope.DecodeStrict([]byte(doc), envelope.Limits{}, &d); !fleet.Is(err, fleet.Invalid) {
				t.Errorf("err = %v, decoded %+v", err, d)
			}
		})
	}
}

func TestDecodeStrict_G40_DecodesWhatItAccepts(t *testing.T) {
	const doc = `{"kind":"k","items":[{"subject":"s","more":1}],"by_name":{"Subject":{"subject":"t"}},
		"raw":{"Subject":1},"free":{"n":9007199254740993},"Plain":"p","unknown":true,"-":"h"}`
	var d document
	if err := envelope.DecodeStrict([]byte(doc), envelope.Limits{}, &d); err != nil {
		t.Fatal(err)
	}
	want := document{
		base: base{Kind: "k"}, Items: []item{{"s"}}, ByName: map[string]*item{"Subject": {"t"}},
		Raw: json.RawMessage(`{"Subject":1}`), Free: map[string]any{"n": json.Number("9007199254740993")}, Plain: "p",
	}
	if !reflect.DeepEqual(d, want) {
		t.Errorf("got %+v\nwant %+v", d, want)
	}
	var closed document
	err := envelope.DecodeClosed([]byte(doc), envelope.Limits{}, &closed)
	if fleet.CodeOf(err) != envelope.CodeSchema {
		t.Errorf("unknown members: %v", err)
	}
}

func TestDecodeStrict_G40_NeedsADestination(t *testing.T) {
	for _, dst := range []any{nil, document{}} {
		if err := envelope.DecodeStrict([]byte("{}"), envelope.Limits{}, dst); err == nil {
			t.Errorf("decoded into %T", dst)
		}
	}
	var zero envelope.Value
	if err := zero.Decode(&document{}); err == nil {
		t.Error("decoded nothing")
	}
}
