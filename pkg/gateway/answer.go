package gateway

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"mime"
	"net/http"
	"strconv"

	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// reply writes a JSON document. Stored documents inside it keep their tokens.
func reply(w http.ResponseWriter, status int, doc any) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(doc); err != nil {
		return fleet.Errorf(fleet.Internal, "http.answer", "the answer cannot be written").Caused(err)
	}
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(buf.Bytes()) // a client that went away gets nothing
	return nil
}

// refuse writes the error document with the status of its kind.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	problem := action.ProblemOf(err)
	status := problem.Kind.Info().HTTPStatus
	switch {
	case problem.Code == CodeCredential:
		status = http.StatusUnauthorized
		w.Header().Set("WWW-Authenticate", "Bearer")
	case problem.Code == envelope.CodeSize:
		status = http.StatusRequestEntityTooLarge
	}
	if problem.RetryAfterMS > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(float64(problem.RetryAfterMS)/1000))))
	}
	if problem.Kind == fleet.Internal {
		s.Log.ErrorContext(r.Context(), "request failed", "path", r.URL.Path, "error", err)
	}
	_ = reply(w, status, map[string]*action.Problem{"error": problem}) // plain strings and numbers
}

// read decodes a strict JSON body: unknown members are refused, so that nobody
// believes to have chosen a tenant or a target (G19).
func (s *Server) read(w http.ResponseWriter, r *http.Request, into any) error {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "application/json" {
		return fleet.Invalidf("http.content_type", "the body is not application/json")
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.MaxInput+1))
	if err != nil {
		return fleet.Invalidf(envelope.CodeSize, "the body is too large, or did not arrive").Because("%d bytes are allowed", s.MaxInput)
	}
	limits := envelope.Limits{MaxBytes: int(s.MaxInput), MaxDepth: envelope.DefaultMaxDepth - messageLevels}
	return envelope.DecodeClosed(data, limits, into)
}
