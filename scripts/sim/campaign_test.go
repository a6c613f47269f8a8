package sim_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/scripts/sim"
)

// The campaign: many seeds, in as many processes as there are processors. Each process
// has one, which leaves its runs the least of chance.
var (
	seeds  = flag.Int("seeds", 0, "play a campaign of this many seeds instead of the tests")
	from   = flag.Uint64("from", 0, "first seed of the campaign")
	replay = flag.String("replay", "", "play one seed and print its trace")
)

// enough is the number of seeds from which on every kind of fault and every move must
// have been met.
const enough = 500

// shardVariable makes this test binary one process of a campaign.
const shardVariable = "AIPFLEET_SIM_SHARD"

// shard is the part of a campaign that one process plays.
type shard struct {
	From  uint64 `json:"from"`
	Step  uint64 `json:"step"`
	Count int    `json:"count"`
	File  string `json:"file"` // for the report
}

func TestMain(m *testing.M) {
	flag.Parse()
	if *seeds > 0 && os.Getenv(shardVariable) == "" {
		os.Exit(campaign(*from, *seeds))
	}
	os.Exit(m.Run())
}

// TestShard plays this process's part of a campaign, or the one seed to replay.
func TestShard(t *testing.T) {
	if *replay != "" {
		seed, err := strconv.ParseUint(*replay, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range play(t, seed, sim.Options{Lines: func(l string) { fmt.Println(l) }}).Violations {
			t.Errorf("%s broken by %s: %s", v.Guarantee, v.Subject, v.What)
		}
		return
	}
	text := os.Getenv(shardVariable)
	if text == "" {
		return // not a part of anything
	}
	var part shard
	if err := json.Unmarshal([]byte(text), &part); err != nil {
		t.Fatal(err)
	}
	var sum sim.Report
	for i := range uint64(part.Count) {
		sum.Add(play(t, part.From+i*part.Step, sim.Options{}))
		if (i+1)%100 == 0 {
			fmt.Fprintf(os.Stderr, "sim: %d of %d, %d violations\n", i+1, part.Count, len(sum.Violations))
		}
	}
	data, err := json.Marshal(sum)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(part.File, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// campaign plays seeds and prints what they came to; the last line sums up.
func campaign(first uint64, count int) int {
	began := time.Now()
	sum, err := playAll(first, count)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for title, counts := range map[string]map[string]int{"faults": sum.Faults, "moves of actions": sum.Moves, "outcomes": sum.Outcomes} {
		fmt.Println(title)
		for _, line := range sim.Counted(counts) {
			fmt.Println(line)
		}
	}
	for _, v := range sum.Violations {
		fmt.Printf("seed %d: %s broken by %s: %s\n", v.Seed, v.Guarantee, v.Subject, v.What)
	}
	missing := sum.Missing()
	if sum.Seeds < enough {
		missing = nil
	}
	for _, m := range missing {
		fmt.Printf("never met: %s\n", m)
	}
	fmt.Printf("sim: %d actions, %d effects, %d messages, %s of virtual time in %s, seeds %d to %d\n", sum.Actions, sum.Effects, sum.Messages,
		sum.Virtual.Round(time.Minute), time.Since(began).Round(time.Second), first, first+uint64(count)-1)
	fmt.Printf("sim: seeds=%d violations=%d\n", sum.Seeds, len(sum.Violations))
	if len(sum.Violations)+len(missing) > 0 || sum.Seeds != count {
		return 1
	}
	return 0
}

// playAll divides the seeds among processes and adds their reports.
func playAll(first uint64, count int) (sim.Report, error) {
	dir, err := os.MkdirTemp("", "aipfleet-sim-")
	if err != nil {
		return sim.Report{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	processes := min(runtime.NumCPU(), count)
	reports := make([]sim.Report, processes)
	failures := make([]error, processes)
	var running sync.WaitGroup
	for i := range processes {
		running.Go(func() {
			part := shard{
				From: first + uint64(i), Step: uint64(processes), Count: (count - i + processes - 1) / processes,
				File: filepath.Join(dir, strconv.Itoa(i)+".json"),
			}
			reports[i], failures[i] = playPart(part)
		})
	}
	running.Wait()
	var sum sim.Report
	for i := range reports {
		if failures[i] != nil {
			return sum, failures[i]
		}
		sum.Add(reports[i])
	}
	return sum, nil
}

func playPart(part shard) (sim.Report, error) {
	var r sim.Report
	text, err := json.Marshal(part)
	if err != nil {
		return r, err
	}
	program, err := os.Executable()
	if err != nil {
		return r, err
	}
	cmd := exec.Command(program, "-test.run=^TestShard$", "-test.timeout=0")
	cmd.Env = append(os.Environ(), shardVariable+"="+string(text), "GOMAXPROCS=1", "GOGC=400", "GODEBUG=asyncpreemptoff=1")
	cmd.Stderr = os.Stderr
	if out, err := cmd.Output(); err != nil {
		return r, fmt.Errorf("a part of the campaign failed: %w\n%s", err, out)
	}
	data, err := os.ReadFile(part.File)
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(data, &r)
}
