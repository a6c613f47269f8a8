package http_test

import (
	"strings"
	"testing"

	"github.com/aipfleet/aipfleet/pkg/connector/http"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

const small = `{"type":"aipfleet.http/v1","base_url":"https://api.example.com/v1","auth":{"header":"X-Key"},
 "tools":{"t":{"call":{"method":"POST","path":"/a/{input.b}","headers":{"X-A":"b"},"body":{"c":"{input.c}"},"outcome":{"succeeded":["200"],"failed":["404"]}}}}}`

// TestParse_G19_WhatATemplateMayNotSay: each change alone is refused, with the place.
func TestParse_G19_WhatATemplateMayNotSay(t *testing.T) {
	if _, err := http.Parse([]byte(small)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string][2]string{
		"other type":            {"aipfleet.http/v1", "aipfleet.http/v2"},
		"unknown member":        {`"auth":`, `"proxy":"x","auth":`},
		"twice the same":        {`"auth":`, `"type":"aipfleet.http/v1","auth":`},
		"plain http":            {"https://api.example.com/v1", "http://api.example.com/v1"},
		"credentials in URL":    {"https://api.example.com/v1", "https://u:p@api.example.com/v1"},
		"origin from input":     {"https://api.example.com/v1", "{input.url}"},
		"origin half filled":    {"https://api.example.com/v1", "https://{account.host}/v1"},
		"method from input":     {`"method":"POST"`, `"method":"{input.m}"`},
		"CONNECT":               {`"method":"POST"`, `"method":"CONNECT"`},
		"relative path":         {"/a/{input.b}", "a/{input.b}"},
		"network path":          {"/a/{input.b}", "//evil.example/{input.b}"},
		"query in path":         {"/a/{input.b}", "/a/{input.b}?x=1"},
		"fragment in path":      {"/a/{input.b}", "/a/{input.b}#x"},
		"space in path":         {"/a/{input.b}", "/a {input.b}"},
		"unknown placeholder":   {"{input.b}", "{secret}"},
		"credential as value":   {"{input.c}", "{credential}"},
		"environment":           {"{input.c}", "{env.HOME}"},
		"open brace":            {"{input.c}", "{input.c"},
		"closed brace":          {"{input.c}", "input.c}"},
		"empty way":             {"{input.c}", "{input..c}"},
		"host header":           {`"X-A":"b"`, `"Host":"evil.example"`},
		"length header":         {`"X-A":"b"`, `"content-length":"1"`},
		"encoding header":       {`"X-A":"b"`, `"Transfer-Encoding":"chunked"`},
		"proxy header":          {`"X-A":"b"`, `"Proxy-Authorization":"b"`},
		"forwarding header":     {`"X-A":"b"`, `"X-Forwarded-For":"127.0.0.1"`},
		"credential's header":   {`"X-A":"b"`, `"x-key":"b"`},
		"header with break":     {`"X-A":"b"`, `"X-A":"b\r\nX-B: c"`},
		"header name":           {`"X-A":"b"`, `"X A":"b"`},
		"auth header":           {`"X-Key"`, `"Host"`},
		"no success":            {`"succeeded":["200"],`, ``},
		"redirect as success":   {`"succeeded":["200"]`, `"succeeded":["302"]`},
		"error as success":      {`"succeeded":["200"]`, `"succeeded":["500"]`},
		"success as failure":    {`"failed":["404"]`, `"failed":["204"]`},
		"success not started":   {`"failed":["404"]`, `"not_started":["204"]`},
		"redirect as failure":   {`"failed":["404"]`, `"failed":["3xx"]`},
		"one status two things": {`"failed":["404"]`, `"failed":["404"],"not_started":["4xx"]`},
		"no status":             {`"404"`, `"40"`},
		"odd status":            {`"404"`, `"4x4"`},
		"body and form":         {`"body":`, `"form":{"a":"b"},"body":`},
		"body of a GET":         {`"method":"POST"`, `"method":"GET"`},
		"odd pointer":           {`"outcome":`, `"output":"issue","outcome":`},
		"call and look":         {`"t":{`, `"t":{"look":{"method":"GET","path":"/","outcome":{"succeeded":["200"]},"found":""},`},
		"nothing":               {`"t":{"call":`, `"t":{},"u":{"call":`},
		"deleting look":         {`"t":{"call":`, `"u":{"look":{"method":"DELETE","path":"/","outcome":{"succeeded":["200"]},"found":""}},"t":{"call":`},
		"absent is success":     {`"t":{"call":`, `"u":{"look":{"method":"GET","path":"/","outcome":{"succeeded":["200"]},"found":"","absent":["200"]}},"t":{"call":`},
	} {
		if !strings.Contains(small, c[0]) {
			t.Errorf("%s: there is nothing to change", name)
		}
		if _, err := http.Parse([]byte(strings.Replace(small, c[0], c[1], 1))); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestCovers_G34_NamesTheToolThatIsMissing(t *testing.T) {
	parsed, err := http.Parse([]byte(template))
	if err != nil {
		t.Fatal(err)
	}
	if err := parsed.Covers(manifest()); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*fleet.Implementation){
		"gone":   func(i *fleet.Implementation) { i.Tool = "gone" },
		"find":   func(i *fleet.Implementation) { i.Tool = "find" },
		"open":   func(i *fleet.Implementation) { i.ReconcileTool = "open" },
		"holds":  func(i *fleet.Implementation) { i.PlanTool = "holds" },
		"delete": func(i *fleet.Implementation) { i.CompensateTool = "delete" },
	} {
		m := manifest()
		change(&m.Implementations[0])
		if err := parsed.Covers(m); fleet.CodeOf(err) != http.CodeTemplate || !strings.Contains(err.Error(), "tool "+name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(small))
	f.Add([]byte(template))
	f.Fuzz(func(t *testing.T, data []byte) {
		parsed, err := http.Parse(data)
		if (parsed == nil) == (err == nil) {
			t.Errorf("%v %v", parsed, err)
		}
	})
}
