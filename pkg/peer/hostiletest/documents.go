package hostiletest

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Document is JSON that nobody may take.
type Document struct {
	Name string
	Data []byte
}

// Documents is the corpus: valid is a document that the surface reads, which most of
// the corpus differs from in one respect; field is the name of one of its members.
func Documents(valid, field string) []Document {
	inner := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(valid), "{"), "}")
	object := func(more string) string { return "{" + more + "," + inner + "}" }
	upper := strings.ToUpper(field[:1]) + field[1:]
	escaped := `\u00` + hex(field[0]) + field[1:]
	var all []Document
	for name, text := range map[string]string{
		"empty": "", "blank": " \n\t", "null": "null", "true": "true", "number": "1", "text": `"text"`, "list": "[]", "empty object": "{}",
		"list of it": "[" + valid + "]", "two documents": valid + valid, "trailing comma": "{" + inner + ",}", "trailing text": valid + "x",
		"trailing zero": valid + "\x00", "comment": "/* x */" + valid, "line comment": "// x\n" + valid, "byte order mark": "\xef\xbb\xbf" + valid,
		"single quotes": strings.ReplaceAll(valid, `"`, "'"), "unquoted name": object("unquoted:1"), "no value": object(`"x":`), "no colon": object(`"x" 1`),
		"duplicate member":         object(`"` + field + `":"first"`),
		"duplicate after escaping": object(`"` + escaped + `":"first"`),
		"member in other case":     object(`"` + upper + `":"x"`),
		"NaN":                      object(`"n":NaN`), "infinity": object(`"n":Infinity`), "hex number": object(`"n":0x10`), "leading zero": object(`"n":01`),
		"leading plus": object(`"n":+1`), "bare point": object(`"n":.5`), "ending point": object(`"n":5.`), "empty exponent": object(`"n":1e`),
		"minus alone": object(`"n":-`), "raw line break in text": object("\"n\":\"a\nb\""), "raw tab in text": object("\"n\":\"a\tb\""),
		"zero byte in text": object("\"n\":\"a\x00b\""), "lone high surrogate": object(`"n":"\ud800"`), "lone low surrogate": object(`"n":"\udc00"`),
		"surrogates in the wrong order": object(`"n":"\udc00\ud800"`), "invalid UTF-8": object("\"n\":\"\xff\""), "overlong UTF-8": object("\"n\":\"\xc0\xaf\""),
		"surrogate in UTF-8": object("\"n\":\"\xed\xa0\x80\""), "unknown escape": object(`"n":"\x41"`), "short escape": object(`"n":"\u12"`),
		"unended text": `{"n":"abc`, "unended object": "{" + inner, "unended list": `{"n":[1,2`, "closed twice": valid + "}",
		"deep lists":   object(`"n":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000)),
		"deep objects": object(`"n":` + strings.Repeat(`{"a":`, 1000) + "1" + strings.Repeat("}", 1000)),
		"many names":   "{" + strings.Repeat(`"a":1,`, 50_000) + inner + "}",
		"five MiB":     object(`"n":"` + strings.Repeat("x", 5<<20) + `"`), "UTF-16": "\xff\xfe{\x00}\x00", "only opening": strings.Repeat("{", 100_000),
	} {
		all = append(all, Document{name, []byte(text)})
	}
	return all
}

func hex(c byte) string {
	const digits = "0123456789abcdef"
	return string([]byte{digits[c>>4], digits[c&15]})
}

// Post sends the corpus to a surface. Every document must be refused as the sender's
// mistake, quickly and with a body that does not repeat it.
func Post(t *testing.T, s Surface, corpus []Document) {
	t.Helper()
	if len(corpus) < 40 {
		t.Fatalf("the corpus has %d documents", len(corpus))
	}
	client := &http.Client{Timeout: patience}
	for _, d := range corpus {
		t.Run(d.Name, func(t *testing.T) {
			req, err := http.NewRequest(http.MethodPost, "http://"+s.Addr+s.Path, bytes.NewReader(d.Data))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			if s.Token != "" {
				req.Header.Set("Authorization", "Bearer "+s.Token)
			}
			began := time.Now()
			resp, err := client.Do(req)
			if err != nil {
				if time.Since(began) > patience/2 {
					t.Errorf("it was not answered: %v", err)
				}
				return // the surface hung up on a document that is too large
			}
			defer func() { _ = resp.Body.Close() }()
			body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
			if resp.StatusCode < 400 || resp.StatusCode >= 500 || err != nil {
				t.Errorf("answered with %d, %v: %.300s", resp.StatusCode, err, body)
			}
			if len(body) > 8<<10 {
				t.Errorf("the answer has %d bytes", len(body))
			}
		})
	}
}
