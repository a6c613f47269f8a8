package connector

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"
)

// StruckOut stands where a credential was.
const StruckOut = "[redacted]"

// minRedacted is the length below which a credential cannot be told from ordinary
// text, so that striking it out would destroy answers.
const minRedacted = 6

// Redactor strikes credentials out of what leaves a connector (G21). The zero value
// knows none. It is safe for concurrent use and never prints what it knows.
type Redactor struct {
	mu      sync.RWMutex
	secrets []Secret
}

// Add makes a credential known. It stays known for the life of the Redactor: a text
// may show a credential after it has rolled.
func (r *Redactor) Add(s Secret) {
	if s == nil || len(s.Reveal()) < minRedacted {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, known := range r.secrets {
		if known.Reveal() == s.Reveal() {
			return
		}
	}
	r.secrets = append(r.secrets, s)
}

// String shows nothing.
func (r *Redactor) String() string { return StruckOut }

// Text strikes credentials out of plain text.
func (r *Redactor) Text(text string) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, s := range r.secrets {
		text = strings.ReplaceAll(text, s.Reveal(), StruckOut)
	}
	return text
}

// JSON strikes credentials out of a document: out of its texts, in whatever way they
// are escaped. A document that shows none is returned as it is, byte for byte. One in
// which a credential is not within a text is replaced as a whole.
func (r *Redactor) JSON(doc json.RawMessage) json.RawMessage {
	r.mu.RLock()
	known := len(r.secrets)
	r.mu.RUnlock()
	if known == 0 || len(doc) == 0 || !r.shows(doc) {
		return doc
	}
	decoder := json.NewDecoder(bytes.NewReader(doc))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return struckDocument()
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(r.value(value)) != nil || r.shows(out.Bytes()) {
		return struckDocument()
	}
	return bytes.TrimSpace(out.Bytes())
}

func struckDocument() json.RawMessage { return json.RawMessage(`{"redacted":true}`) }

// shows reports whether a document holds a credential, as it is or escaped.
func (r *Redactor) shows(doc []byte) bool {
	if text := string(doc); r.Text(text) != text {
		return true
	}
	found := false
	decoder := json.NewDecoder(bytes.NewReader(doc))
	decoder.UseNumber()
	for {
		token, err := decoder.Token()
		if err != nil || found {
			return found
		}
		if text, ok := token.(string); ok {
			found = r.Text(text) != text
		}
	}
}

func (r *Redactor) value(v any) any {
	switch v := v.(type) {
	case string:
		return r.Text(v)
	case []any:
		for i := range v {
			v[i] = r.value(v[i])
		}
	case map[string]any:
		clean := make(map[string]any, len(v))
		for name, member := range v {
			clean[r.Text(name)] = r.value(member)
		}
		return clean
	}
	return v
}

// Result strikes credentials out of everything that a result says.
func (r *Redactor) Result(result Result) Result {
	result.Why = r.Text(result.Why)
	result.Output, result.Operation = r.JSON(result.Output), r.JSON(result.Operation)
	for i, part := range result.Content {
		result.Content[i] = r.JSON(part)
	}
	if f := result.Failure; f != nil {
		result.Failure = &Failure{Code: r.Text(f.Code), Message: r.Text(f.Message)}
	}
	return result
}
