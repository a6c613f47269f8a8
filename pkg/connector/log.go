package connector

import (
	"bytes"
	"io"
	"log/slog"
	"sync"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// maxLogLine bounds one line of a child's log.
const maxLogLine = 4 << 10

// Log turns a program's standard error into log lines, credentials struck out.
type Log struct {
	Redact *Redactor
	To     *slog.Logger
	Also   io.Writer // also receives the lines; may be nil

	mu   sync.Mutex
	rest []byte
}

// Write implements io.Writer. A line is logged when it is whole or too long.
func (w *Log) Write(p []byte) (int, error) {
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

// End logs what is left without a line break.
func (w *Log) End() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.rest) > 0 {
		w.emit(string(w.rest))
		w.rest = nil
	}
}

func (w *Log) emit(line string) {
	line = w.Redact.Text(line)
	w.To.Info("connector says", "line", fleet.Printable(line, maxLogLine))
	if w.Also != nil {
		_, _ = io.WriteString(w.Also, line+"\n")
	}
}
