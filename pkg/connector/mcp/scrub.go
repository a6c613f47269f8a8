package mcp

import (
	"bytes"
	"io"
	"log/slog"
	"strings"
	"sync"

	"github.com/aipfleet/aipfleet/pkg/connector"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// struckOut stands where a credential was.
const struckOut = "[redacted]"

// scrubber strikes credentials out of texts that leave the child (G21).
type scrubber struct{ secrets []connector.Secret }

func (s *scrubber) add(secret connector.Secret) { s.secrets = append(s.secrets, secret) }

// String shows nothing.
func (s scrubber) String() string { return struckOut }

func (s scrubber) clean(text string) string {
	for _, secret := range s.secrets {
		if value := secret.Reveal(); value != "" {
			text = strings.ReplaceAll(text, value, struckOut)
		}
	}
	return text
}

// maxLogLine bounds one line of a child's log.
const maxLogLine = 4 << 10

// logWriter turns a child's standard error into log lines.
type logWriter struct {
	scrub scrubber
	log   *slog.Logger
	also  io.Writer

	mu   sync.Mutex
	rest []byte
}

func (a *Adapter) logOf(scrub scrubber) io.Writer {
	return &logWriter{scrub: scrub, log: a.cfg.Log, also: a.cfg.Stderr}
}

// Write implements io.Writer. A line is logged when it is whole or too long.
func (w *logWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rest = append(w.rest, p...)
	for {
		end := bytes.IndexByte(w.rest, '\n')
		if end < 0 && len(w.rest) < maxLogLine {
			return len(p), nil
		}
		line := w.rest
		if end >= 0 {
			line, w.rest = w.rest[:end], w.rest[end+1:]
		} else {
			w.rest = nil
		}
		w.emit(string(line))
	}
}

func (w *logWriter) emit(line string) {
	line = w.scrub.clean(line)
	w.log.Info("connector says", "line", fleet.Printable(line, maxLogLine))
	if w.also != nil {
		_, _ = io.WriteString(w.also, line+"\n")
	}
}
