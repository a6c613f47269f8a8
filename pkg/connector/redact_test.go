package connector_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/aipfleet/aipfleet/pkg/connector"
)

type shown string

func (s shown) Reveal() string { return string(s) }
func (shown) String() string   { return "hidden" }

func TestRedactor_G21_StrikesOutWhateverTheForm(t *testing.T) {
	var r connector.Redactor
	for _, s := range []string{`tok"en<1>`, "314159265", "ab"} {
		r.Add(shown(s))
	}
	for in, want := range map[string]string{
		`{"a":"x tok\"en<1> y","n":9007199254740993}`:                  `{"a":"x [redacted] y","n":9007199254740993}`,
		`{"a":"\u0074ok\u0022en\u003c1\u003e"}`:                        `{"a":"[redacted]"}`,
		`{"tok\"en<1>":[["tok\"en<1>"]]}`:                              `{"[redacted]":[["[redacted]"]]}`,
		`{"number":314159265}`:                                         `{"redacted":true}`,
		`{"b": 1.0,"a":"nothing here","ab":"too short to strike out"}`: `{"b": 1.0,"a":"nothing here","ab":"too short to strike out"}`,
		``: ``,
	} {
		if got := string(r.JSON(json.RawMessage(in))); got != want {
			t.Errorf("%s became %s, want %s", in, got, want)
		}
	}
	got := r.Result(connector.Result{
		Why: `it said tok"en<1>`, Output: json.RawMessage(`"314159265"`), Failure: &connector.Failure{Message: `tok"en<1>`},
	})
	if text := fmt.Sprintf("%+v %s %+v", got, got.Output, got.Failure); strings.Contains(text, "tok") || strings.Contains(text, "314159") {
		t.Errorf("a result shows a credential: %s", text)
	}
	if text := fmt.Sprintf("%v %+v", &r, &r); strings.Contains(text, "tok") {
		t.Errorf("the redactor shows what it knows: %s", text)
	}
}
