package localfleet

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/pgcluster"
)

// Names of the processes beside the hosts, which are named after their replicas.
const (
	ProcessPostgres  = "postgres"
	ProcessLifecycle = "lifecycle"
	ProcessServe     = "serve"
)

// readyTime bounds the start of one process.
const readyTime = 60 * time.Second

// launches lists every process in the order in which they are started.
func (f *Fleet) launches() []launch {
	aipd, env := f.programs.path("aipd"), bareEnvironment()
	all := []launch{
		{ProcessLifecycle, aipd, []string{"lifecycle", "--config", f.place.Config("lifecycle.yaml")}, env},
		{ProcessServe, aipd, []string{"serve", "--config", f.place.Config("serve.yaml")}, env},
	}
	for _, h := range f.Hosts() {
		all = append(all, launch{h.Replica, f.programs.path("aiphost"), []string{"run", "--config", f.place.Config(h.Replica + ".yaml")}, env})
	}
	return all
}

// startAll starts what does not run and waits until all of it is ready.
func (f *Fleet) startAll(ctx context.Context) error {
	var started []launch
	for _, l := range f.launches() {
		if f.state.Processes[l.name].Alive() {
			continue
		}
		if err := f.launch(l); err != nil {
			return err
		}
		started = append(started, l)
	}
	for _, l := range started {
		if err := f.awaitReady(ctx, l.name); err != nil {
			return err
		}
	}
	if len(started) > 0 {
		f.say("started %d processes", len(started))
	}
	return nil
}

// Start starts one process that does not run and waits until it is ready.
func (f *Fleet) Start(ctx context.Context, name string) error {
	if name == ProcessPostgres {
		_, _, err := f.cluster(ctx)
		return err
	}
	i := slices.IndexFunc(f.launches(), func(l launch) bool { return l.name == name })
	if i < 0 {
		return fleet.Errorf(fleet.NotFound, "dev.process", "the fleet has no process %s", fleet.Printable(name, 80))
	}
	if f.state.Processes[name].Alive() {
		return nil
	}
	if err := f.launch(f.launches()[i]); err != nil {
		return err
	}
	return f.awaitReady(ctx, name)
}

// launch starts a process and records it before anything else.
func (f *Fleet) launch(l launch) error {
	process, err := f.place.spawn(l)
	if err != nil {
		return err
	}
	f.state.Processes[l.name] = process
	return f.place.writeState(f.state)
}

// readyLine is what every daemon says when it serves.
type readyLine struct {
	Ready  bool   `json:"ready"`
	Listen string `json:"listen"`
	DID    string `json:"did"`
}

// awaitReady waits for the line, or for the end of the process.
func (f *Fleet) awaitReady(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		alive := f.state.Processes[name].Alive()
		if said, err := os.ReadFile(f.place.said(name)); err == nil && isReady(said) {
			return nil
		}
		if !alive {
			return f.notReady(name, "it ended")
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return f.notReady(name, "it did not say so in time")
		}
	}
}

func isReady(said []byte) bool {
	for line := range bytes.Lines(said) {
		var l readyLine
		if json.Unmarshal(line, &l) == nil && l.Ready {
			return true
		}
	}
	return false
}

func (f *Fleet) notReady(name, why string) error {
	return fleet.Errorf(fleet.Unavailable, "dev.not_ready", "%s did not become ready: %s", name, why).
		Because("%s", f.LogTail(name, 12)).Advise("look at %s", f.place.Log(name))
}

// LogTail is the end of a process's log.
func (f *Fleet) LogTail(name string, lines int) string {
	text, err := os.ReadFile(f.place.Log(name))
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// Process is the recorded process of a name.
func (f *Fleet) Process(name string) Process { return f.state.Processes[name] }

// Kill ends a process as a crash would.
func (f *Fleet) Kill(ctx context.Context, name string) error {
	if name == ProcessPostgres {
		cluster, err := pgcluster.Attach(f.place.postgres())
		if err != nil {
			return err
		}
		return cluster.Kill()
	}
	return f.state.Processes[name].Kill(ctx)
}

// Stop asks one process to end and waits for it.
func (f *Fleet) Stop(ctx context.Context, name string) error {
	gentle, err := f.state.Processes[name].stop(ctx)
	if err == nil && !gentle {
		f.say("%s did not end when asked and was killed", name)
	}
	return err
}
