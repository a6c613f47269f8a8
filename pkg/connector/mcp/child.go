package mcp

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aipfleet/aipfleet/pkg/connector"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// grace is how long a child may take to end at each step of ending it.
const grace = 2 * time.Second

// child is one running server and the session with it.
type child struct {
	cmd     *exec.Cmd
	stdin   *os.File
	session *sdk.ClientSession
	scrub   scrubber
	gone    chan struct{} // closed when the process was reaped
	mute    chan struct{} // closed when the session ended
}

// startChild makes the program ready, starts it and greets it.
func (a *Adapter) startChild(ctx context.Context) (*child, error) {
	program, err := a.cfg.Program(ctx)
	if err != nil {
		return nil, err
	}
	env, scrub, err := a.environment(ctx)
	if err != nil {
		return nil, err
	}
	c := &child{scrub: scrub, gone: make(chan struct{})}
	stdout, err := c.launch(program, env, a.logOf(scrub))
	if err != nil {
		return nil, starting("its program cannot be started").(*fleet.Error).Caused(err)
	}
	greeting, cancel := context.WithTimeout(ctx, a.cfg.Patience)
	defer cancel()
	transport := tapped{&sdk.IOTransport{Reader: stdout, Writer: c.stdin}}
	c.session, err = a.client().Connect(greeting, transport, nil)
	if err != nil {
		c.end()
		return nil, starting("it does not speak MCP: " + fleet.Printable(err.Error(), 300))
	}
	c.mute = make(chan struct{})
	go func() {
		defer close(c.mute)
		_ = c.session.Wait()
	}()
	return c, nil
}

// environment is the child's whole environment, with its credentials.
func (a *Adapter) environment(ctx context.Context) ([]string, scrubber, error) {
	env := append([]string{}, a.cfg.Env...)
	var scrub scrubber
	if a.cfg.Secrets == nil {
		return env, scrub, nil
	}
	secrets, err := a.cfg.Secrets(ctx)
	if err != nil {
		return nil, scrub, err
	}
	for name, secret := range secrets {
		env = append(env, name+"="+secret.Reveal())
		scrub.add(secret)
	}
	return env, scrub, nil
}

// launch starts the process in its own group, so that a signal to the host's
// terminal does not reach it and its own children can be ended with it.
func (c *child) launch(p Program, env []string, log io.Writer) (io.ReadCloser, error) {
	inRead, inWrite, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	outRead, outWrite, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, inRead.Close(), inWrite.Close())
	}
	c.cmd = exec.Command(p.Path, p.Args...)
	c.cmd.Dir, c.cmd.Env = p.Dir, env
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = inRead, outWrite, log
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.cmd.WaitDelay = grace
	err = c.cmd.Start()
	_, _ = inRead.Close(), outWrite.Close()
	if err != nil {
		return nil, errors.Join(err, inWrite.Close(), outRead.Close())
	}
	c.stdin = inWrite
	go func() {
		defer close(c.gone)
		_ = c.cmd.Wait()
	}()
	return outRead, nil
}

// end closes the child's input, then asks it, then kills its group, and waits.
func (c *child) end() {
	_ = c.stdin.Close()
	if !c.ended() {
		c.signal(syscall.SIGTERM)
		if !c.ended() {
			c.signal(syscall.SIGKILL)
			<-c.gone
		}
	}
	if c.session != nil {
		_ = c.session.Close()
		<-c.mute
	}
}

func (c *child) ended() bool {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-c.gone:
		return true
	case <-timer.C:
		return false
	}
}

func (c *child) signal(s syscall.Signal) {
	select {
	case <-c.gone: // the pid may be somebody else's by now
	default:
		_ = syscall.Kill(-c.cmd.Process.Pid, s)
	}
}

// Discover implements connector.Connector.
func (a *Adapter) Discover(ctx context.Context) ([]connector.Offer, error) {
	c, err := a.current()
	if c == nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Patience)
	defer cancel()
	return c.offers(ctx)
}

func (c *child) offers(ctx context.Context) ([]connector.Offer, error) {
	var all []connector.Offer
	for tool, err := range c.session.Tools(ctx, nil) {
		if err != nil {
			return nil, starting("its tools cannot be listed: " + fleet.Printable(err.Error(), 300))
		}
		offer, err := offerOf(tool)
		if err != nil {
			return nil, err
		}
		if all = append(all, offer); len(all) > maxTools {
			return nil, fleet.Errorf(fleet.NotAdmitted, CodeManifest, "the connector lists too many tools").
				Because("more than %d", maxTools)
		}
	}
	return all, nil
}

// maxTools bounds what a server may list.
const maxTools = 4 * fleet.MaxCapabilities
