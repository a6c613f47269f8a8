package host

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/aipfleet/aipfleet/pkg/crashpoint"
	"github.com/aipfleet/aipfleet/pkg/peer"
	"github.com/aipfleet/aipfleet/pkg/protocol"
)

// Handler serves POST /aip/v1/messages, GET /health and GET /ready.
func (h *Host) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+protocol.PathMessages, h.serveMessage)
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	mux.HandleFunc("GET /ready", h.serveReady)
	return peer.Strict(mux)
}

func (h *Host) serveMessage(w http.ResponseWriter, r *http.Request) {
	a, err := h.handle(r)
	if err != nil {
		if r.Context().Err() != nil {
			return // nobody is there; what was begun goes on
		}
		h.cfg.Log.Error("message not answered", "error", err.Error())
		a = failureAnswer()
	}
	w.Header().Set("Content-Type", protocol.ContentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
	crashpoint.Reach(crashpoint.BeforeAck)
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body)
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
	crashpoint.Reach(crashpoint.AfterAck)
}

// handle takes a request through the checks, in their order.
func (h *Host) handle(r *http.Request) (answer, error) {
	data, no := readForm(r)
	if no != nil {
		return h.refusalUnverified(data, no), nil
	}
	opened, no := h.open(data)
	if no != nil {
		h.cfg.Log.Warn("message refused", "code", no.code, "why", no.why)
		return h.refusalUnverified(data, no), nil
	}
	d, no := read(opened)
	if no == nil {
		no = h.checkRoute(d)
	}
	if no != nil {
		h.cfg.Log.Warn("message refused", "code", no.code, "why", no.why, "action", d.route.Action.String())
		return h.refusalAnswer(d, no)
	}
	return h.deliver(r.Context(), d)
}

// readiness is the answer of GET /ready: which part is not ready.
type readiness struct {
	Ready    bool              `json:"ready"`
	Parts    map[string]string `json:"parts"`
	InFlight int               `json:"in_flight"`
	Draining bool              `json:"draining"`
}

func (h *Host) serveReady(w http.ResponseWriter, r *http.Request) {
	out := readiness{Ready: true, Parts: map[string]string{}, InFlight: h.InFlight(), Draining: h.Draining()}
	part := func(name string, err error) {
		out.Parts[name] = "ok"
		if err != nil {
			out.Ready, out.Parts[name] = false, err.Error()
		}
	}
	part("journal", h.cfg.Journal.Err())
	part("connector", h.cfg.Connector.Health(r.Context()))
	part("lease", nil)
	if !h.cfg.Lease.Standing().Trusted(h.cfg.Now()) {
		out.Ready, out.Parts["lease"] = false, "not held, or ending"
	}
	status := http.StatusOK
	if !out.Ready {
		status = http.StatusServiceUnavailable
	}
	writeJSON(w, status, out)
}

func writeJSON(w http.ResponseWriter, status int, doc any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(doc)
}
