package catalog

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

func accepts(input bool, from, to string) string {
	return comparison{open: input}.accepts(schema(json.RawMessage(from)), schema(json.RawMessage(to)), "x")
}

func TestIncompatible_G34_InputMayWidenOnly(t *testing.T) {
	const base = `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`
	for what, c := range map[string]struct {
		to string
		ok bool
	}{
		"equal":                       {base, true},
		"equal, written otherwise":    {`{"required":["a"], "properties":{"a":{"type":"string"}}, "type":"object"}`, true},
		"annotated":                   {`{"title":"T","description":"D","type":"object","properties":{"a":{"type":"string","default":"x"}},"required":["a"]}`, true},
		"optional property added":     {`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}},"required":["a"]}`, true},
		"required dropped":            {`{"type":"object","properties":{"a":{"type":"string"}}}`, true},
		"property widened":            {`{"type":"object","properties":{"a":{"type":["string","null"]}},"required":["a"]}`, true},
		"everything":                  {`{}`, true},
		"true":                        {`true`, true},
		"required added":              {`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}},"required":["a","b"]}`, false},
		"type changed":                {`{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}`, false},
		"property bounded":            {`{"type":"object","properties":{"a":{"type":"string","maxLength":9}},"required":["a"]}`, false},
		"property enumerated":         {`{"type":"object","properties":{"a":{"enum":["x"]}},"required":["a"]}`, false},
		"property with a pattern":     {`{"type":"object","properties":{"a":{"type":"string","pattern":"^x"}},"required":["a"]}`, false},
		"property with a format":      {`{"type":"object","properties":{"a":{"type":"string","format":"date"}},"required":["a"]}`, false},
		"closed":                      {`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}`, false},
		"other properties bounded":    {`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":{"type":"string"}}`, false},
		"not":                         {`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"not":{"required":["b"]}}`, false},
		"reference":                   {`{"$ref":"#/$defs/x","$defs":{"x":true}}`, false},
		"false":                       {`false`, false},
		"fewer properties":            {`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"maxProperties":1}`, false},
		"a keyword that nobody knows": {`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"x-odd":1}`, false},
		"pattern properties":          {`{"type":"object","patternProperties":{"^a":{"type":"integer"}}}`, false},
		"required of an odd form":     {`{"type":"object","required":[{"a":1}]}`, false},
	} {
		why := accepts(true, base, c.to)
		if (why == "") != c.ok {
			t.Errorf("%s: %q", what, why)
		}
	}
}

func TestIncompatible_G34_Keywords(t *testing.T) {
	for _, c := range []struct {
		from, to string
		ok       bool
	}{
		{`{"type":"integer"}`, `{"type":"number"}`, true},
		{`{"type":"number"}`, `{"type":"integer"}`, false},
		{`{"minimum":5}`, `{"minimum":4.5}`, true},
		{`{"minimum":5}`, `{"minimum":5.0}`, true},
		{`{"minimum":9007199254740993}`, `{"minimum":9007199254740992}`, true},
		{`{"minimum":9007199254740992}`, `{"minimum":9007199254740993}`, false},
		{`{"maximum":1e3}`, `{"maximum":1000}`, true},
		{`{"maximum":1e3}`, `{"maximum":999}`, false},
		{`{}`, `{"maximum":10}`, false},
		{`{"maximum":10}`, `{}`, true},
		{`{"enum":[1,2]}`, `{"enum":[1,2,3]}`, true},
		{`{"enum":[1,2,3]}`, `{"enum":[1,2]}`, false},
		{`{"const":"a"}`, `{"enum":["a","b"]}`, true},
		{`{"enum":["a"]}`, `{"type":"string"}`, true},
		{`{"enum":["a",1]}`, `{"type":"string"}`, false},
		{`{"type":"array","items":{"type":"integer"}}`, `{"type":"array","items":{"type":"number"}}`, true},
		{`{"type":"array"}`, `{"type":"array","items":{"type":"number"}}`, false},
		{`{"type":"array","items":{"type":"integer"}}`, `{"type":"array"}`, true},
		{`{"uniqueItems":true}`, `{"uniqueItems":true,"title":"t"}`, true},
		{`{}`, `{"uniqueItems":true}`, false},
		{`{"anyOf":[{"type":"string"}]}`, `{"anyOf":[{"type":"string"}],"title":"t"}`, true},
		{`{"anyOf":[{"type":"string"}]}`, `{"anyOf":[{"type":"string"},{"type":"null"}]}`, false},
		{`{"anyOf":[{"type":"string"}]}`, `{}`, true},
		{`false`, `{"type":"string"}`, true},
		{`true`, `{"type":"string"}`, false},
		{`{"$ref":"#/a"}`, `{"$ref":"#/a"}`, true},
		{`{"$ref":"#/a"}`, `{"$ref":"#/b"}`, false},
	} {
		if why := accepts(true, c.from, c.to); (why == "") != c.ok {
			t.Errorf("%s then %s: %q", c.from, c.to, why)
		}
	}
}

// An output that the old contract promised must still be promised.
func TestIncompatible_G34_OutputMayNarrowOnly(t *testing.T) {
	const old = `{"type":"object","properties":{"id":{"type":"string"},"n":{"type":"number"}},"required":["id"]}`
	for what, c := range map[string]struct {
		fresh string
		ok    bool
	}{
		"equal":                {old, true},
		"property added":       {`{"type":"object","properties":{"id":{"type":"string"},"n":{"type":"number"},"m":{"type":"null"}},"required":["id"]}`, true},
		"more is required":     {`{"type":"object","properties":{"id":{"type":"string"},"n":{"type":"integer"}},"required":["id","n"]}`, true},
		"required dropped":     {`{"type":"object","properties":{"id":{"type":"string"},"n":{"type":"number"}}}`, false},
		"property may be null": {`{"type":"object","properties":{"id":{"type":["string","null"]},"n":{"type":"number"}},"required":["id"]}`, false},
		"property forgotten":   {`{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]}`, false},
		"anything":             {`{}`, false},
	} {
		d, e := sample(), sample()
		d.OutputSchema, e.OutputSchema = json.RawMessage(old), json.RawMessage(c.fresh)
		why := Incompatible(d, e)
		if (why == "") != c.ok {
			t.Errorf("%s: %q", what, why)
		}
		if !c.ok && !strings.HasPrefix(why, "output widened") {
			t.Errorf("%s is refused with %q", what, why)
		}
	}
	closed, more := sample(), sample()
	closed.OutputSchema = json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`)
	more.OutputSchema = json.RawMessage(`{"type":"object","properties":{"m":{"type":"string"}},"additionalProperties":false}`)
	if Incompatible(closed, more) == "" {
		t.Error("a closed output grew a property")
	}
	none := sample()
	none.OutputSchema = nil
	if Incompatible(none, closed) != "" || Incompatible(closed, none) == "" {
		t.Error("an absent output schema is not the widest one")
	}
}

func sample() fleet.CapabilityDefinition {
	id, err := fleet.ParseCapabilityID("a:do")
	if err != nil {
		panic(err)
	}
	return fleet.CapabilityDefinition{
		ID: id, Name: "Do", Kind: "tool", InputSchema: json.RawMessage(`{"type":"object"}`), OutputSchema: json.RawMessage(`{"type":"object"}`),
		Contract: fleet.Contract{SideEffects: fleet.EffectWrite, Idempotency: fleet.IdempotencyNatural},
	}
}

func TestIncompatible_G34_Contract(t *testing.T) {
	for what, c := range map[string]struct {
		edit func(*fleet.CapabilityDefinition)
		ok   bool
	}{
		"another name":        {func(d *fleet.CapabilityDefinition) { d.Name, d.Description = "X", "Y" }, true},
		"fewer effects":       {func(d *fleet.CapabilityDefinition) { d.Contract.SideEffects = fleet.EffectRead }, true},
		"more effects":        {func(d *fleet.CapabilityDefinition) { d.Contract.SideEffects = fleet.EffectDestructive }, false},
		"unknown effects":     {func(d *fleet.CapabilityDefinition) { d.Contract.SideEffects = "odd" }, false},
		"no idempotency":      {func(d *fleet.CapabilityDefinition) { d.Contract.Idempotency = fleet.IdempotencyNone }, false},
		"another idempotency": {func(d *fleet.CapabilityDefinition) { d.Contract.Idempotency = fleet.IdempotencyProviderKey }, false},
		"another kind":        {func(d *fleet.CapabilityDefinition) { d.Kind = "resource" }, false},
		"input narrowed": {func(d *fleet.CapabilityDefinition) {
			d.InputSchema = json.RawMessage(`{"type":"object","required":["a"]}`)
		}, false},
		"input widened":        {func(d *fleet.CapabilityDefinition) { d.InputSchema = json.RawMessage(`{}`) }, true},
		"input no longer JSON": {func(d *fleet.CapabilityDefinition) { d.InputSchema = json.RawMessage(`{`) }, false},
	} {
		d := sample()
		c.edit(&d)
		if why := Incompatible(sample(), d); (why == "") != c.ok {
			t.Errorf("%s: %q", what, why)
		}
	}
	none := sample()
	none.Contract.Idempotency = fleet.IdempotencyNone
	if why := Incompatible(none, sample()); why != "" {
		t.Errorf("gaining idempotency is refused: %s", why)
	}
}

// TestSubset_G34_IsSound draws pairs of schemas and values: when the comparison says
// that b accepts all that a accepts, a value that a validator accepts under a must be
// accepted under b. Properties that a does not mention are outside that promise for
// inputs, so the strict form is tested.
func TestSubset_G34_IsSound(t *testing.T) {
	agreed := 0
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawSchema(t, 2), drawSchema(t, 2)
		if why := (comparison{}).accepts(a, b, "x"); why != "" {
			return
		}
		agreed++
		va, vb := compiled(t, a), compiled(t, b)
		for range 8 {
			v := drawValue(t, 2)
			if va.Validate(v) == nil && vb.Validate(v) != nil {
				t.Fatalf("%v accepts %v, %v does not", a, v, b)
			}
		}
	})
	if agreed == 0 {
		t.Error("no pair of schemas was ever comparable")
	}
}

func compiled(t *rapid.T, s any) *jsonschema.Schema {
	c := jsonschema.NewCompiler()
	if err := c.AddResource("mem:s", s); err != nil {
		t.Fatal(err)
	}
	v, err := c.Compile("mem:s")
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func drawSchema(t *rapid.T, depth int) any {
	s := map[string]any{}
	maybe := func(p int) bool { return rapid.IntRange(0, 9).Draw(t, "maybe") < p }
	if maybe(1) {
		return rapid.Bool().Draw(t, "bool")
	}
	if maybe(6) {
		s["type"] = rapid.SampledFrom([]any{"object", "string", "integer", "number", []any{"string", "null"}, []any{"integer", "array"}}).Draw(t, "type")
	}
	if maybe(2) {
		s["enum"] = rapid.SampledFrom([][]any{{"a"}, {"a", "bb"}, {json.Number("1"), json.Number("2")}, {"a", json.Number("1")}}).Draw(t, "enum")
	}
	for _, word := range []string{"minimum", "maximum", "minLength", "maxLength", "minItems", "maxProperties"} {
		if maybe(1) {
			s[word] = json.Number(rapid.SampledFrom([]string{"0", "1", "2"}).Draw(t, word))
		}
	}
	if depth > 0 && maybe(5) {
		props := map[string]any{}
		for _, name := range []string{"p", "q"} {
			if maybe(5) {
				props[name] = drawSchema(t, depth-1)
			}
		}
		s["properties"] = props
		if maybe(4) {
			s["additionalProperties"] = drawSchema(t, depth-1)
		}
		if maybe(4) {
			s["required"] = rapid.SampledFrom([][]any{{"p"}, {"q"}, {"p", "q"}}).Draw(t, "required")
		}
	}
	if depth > 0 && maybe(2) {
		s["items"] = drawSchema(t, depth-1)
	}
	if maybe(1) {
		s["not"] = map[string]any{"type": "null"}
	}
	return s
}

func drawValue(t *rapid.T, depth int) any {
	switch n := rapid.IntRange(0, 7).Draw(t, "value"); {
	case n == 0:
		return nil
	case n < 3:
		return rapid.SampledFrom([]string{"", "a", "bb", "ccc"}).Draw(t, "string")
	case n < 5:
		return json.Number(rapid.SampledFrom([]string{"0", "1", "1.5", "2", "3"}).Draw(t, "number"))
	case n == 5 && depth > 0:
		return []any{drawValue(t, depth-1)}
	case depth > 0:
		o := map[string]any{}
		for _, name := range []string{"p", "q", "r"} {
			if rapid.Bool().Draw(t, name) {
				o[name] = drawValue(t, depth-1)
			}
		}
		return o
	}
	return true
}
