package mcp

import (
	"bytes"
	"io"
	"log/slog"
	"sync"

	"github.com/aipfleet/aipfleet/pkg/connector"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// maxLogLine bounds one line of a child's log.
const maxLogLine = 4 << 10

// logWriter turns a child's standard error into log lines, credentials struck out.
type logWriter struct {
	redact *connector.Redactor
	log    *slog.Logger
	also   io.Writer

	mu   sync.Mutex
	rest []byte
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
	line = w.redact.Text(line)
	w.log.Info("connector says", "line", fleet.Printable(line, maxLogLine))
	if w.also != nil {
		_, _ = io.WriteString(w.also, line+"\n")
	}
}
