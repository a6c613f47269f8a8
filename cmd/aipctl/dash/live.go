package dash

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"os"
	"sync"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/tui"
)

// live runs the dashboard until it is quit, killed or broken. The terminal is
// restored in every case.
func (o *Options) live(ctx context.Context, c tui.Config) error {
	out, copier := shared(o.App.Out)
	c.Copy = copier
	p := tea.NewProgram(tui.New(c), tea.WithContext(ctx), tea.WithInput(o.App.In), tea.WithOutput(out),
		tea.WithAltScreen(), tea.WithoutSignalHandler())
	_, err := p.Run()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return app.Exit(app.ExitInterrupted)
	case errors.Is(err, tea.ErrProgramPanic):
		return fleet.Errorf(fleet.Internal, "dash.panic", "the dashboard broke").
			Because("a defect of aipctl; the registry is not touched").Advise("aipctl dash --linear")
	}
	return fleet.Errorf(fleet.Internal, "dash.terminal", "the terminal cannot be used").Caused(err)
}

// shared makes the one writer of frames and of copied text, so that neither is
// written into the middle of the other.
func shared(w io.Writer) (io.Writer, func(string) error) {
	s := &sharedWriter{w: w}
	if f, ok := w.(*os.File); ok {
		return &sharedFile{file: f, to: s}, s.copy
	}
	return s, s.copy
}

type sharedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *sharedWriter) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}

// maxCopied bounds what is sent to the clipboard: terminals drop more than that.
const maxCopied = 64 << 10

// copy puts text into the terminal's clipboard by OSC 52, over any distance.
func (s *sharedWriter) copy(text string) error {
	if len(text) > maxCopied {
		return errors.New("it is too long for a terminal's clipboard")
	}
	_, err := io.WriteString(s, "\x1b]52;c;"+base64.StdEncoding.EncodeToString([]byte(text))+"\x07")
	return err
}

// sharedFile is a terminal whose writes take turns. It has just the methods by which
// the terminal library recognises one.
type sharedFile struct {
	file *os.File
	to   *sharedWriter
}

func (f *sharedFile) Fd() uintptr                 { return f.file.Fd() }
func (f *sharedFile) Read(p []byte) (int, error)  { return f.file.Read(p) }
func (f *sharedFile) Write(p []byte) (int, error) { return f.to.Write(p) }
func (f *sharedFile) Close() error                { return f.file.Close() }
