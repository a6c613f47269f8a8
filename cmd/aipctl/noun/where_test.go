package noun

import (
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

func now() time.Time { return time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC) }

func sample(t *testing.T) Record {
	t.Helper()
	id, err := fleet.ParseReplicaID("crepl_a")
	if err != nil {
		t.Fatal(err)
	}
	r := registry.ReplicaRecord{Replica: fleet.Replica{ID: id, Capacity: 10, Topology: fleet.Topology{Zone: "north-1"}}}
	r.Live = fleet.ReplicaLive{Status: fleet.ReplicaDraining, LeaseExpiresAt: now().Add(8 * time.Second), LastBeatAt: now().Add(-90 * time.Second), Active: 9}
	records, err := Wrap([]any{r})
	if err != nil {
		t.Fatal(err)
	}
	return records[0]
}

// TestWhere_G40_ConditionsMeanWhatTheyRead judges one replica by many conditions.
func TestWhere_G40_ConditionsMeanWhatTheyRead(t *testing.T) {
	r := sample(t)
	for text, want := range map[string]bool{
		"status=draining && lease<10s": true, "status=draining && lease<5s": false, "status!=draining": false, "status=drain": false,
		"active>8": true, "active>=9": true, "active<9": false, "capacity>9": true, "capacity=10.0": true,
		"beat>1m": true, "beat>2m": false, "zone~NORTH": true, "zone='north-1'": true, "topology.zone==north-1": true,
		"live.last_beat_at<2030-01-01T12:00:00Z": true, "peer.nothing=x": false, "peer.nothing!=x": true, "active>many": false, "": true,
	} {
		w, err := replicas().ParseWhere(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got := w.Match(r, now()); got != want {
			t.Errorf("%q is %v, want %v", text, got, want)
		}
	}
}

// TestWhere_G40_NonsenseIsRefused names what is wrong.
func TestWhere_G40_NonsenseIsRefused(t *testing.T) {
	for _, text := range []string{"status", "=x", "colour=red", "status=draining &&", "&&"} {
		if _, err := replicas().ParseWhere(text); !fleet.Is(err, fleet.Invalid) {
			t.Errorf("%q is accepted (%v)", text, err)
		}
	}
	if _, err := replicas().ParseLabels([]string{"active>3"}); fleet.CodeOf(err) != "usage.label" {
		t.Errorf("a label selector takes comparisons: %v", err)
	}
}

// TestSwitch_G40_EnabledReadsAsAWord shows how a switch compares.
func TestSwitch_G40_EnabledReadsAsAWord(t *testing.T) {
	records, err := Wrap([]any{fleet.ConnectorType{Enabled: true}})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"state=enabled": true, "state=true": true, "state=disabled": false, "state!=off": true} {
		w, err := types().ParseWhere(text)
		if err != nil || w.Match(records[0], now()) != want {
			t.Errorf("%q is not %v (%v)", text, want, err)
		}
	}
}

// TestNouns_G40_EveryNounHasColumnsAndRecords keeps this table and the registry's together.
func TestNouns_G40_EveryNounHasColumnsAndRecords(t *testing.T) {
	for _, name := range registry.Nouns() {
		n, err := Find(string(name))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if n.Registry() != name || n.Kind == "" || n.About == "" || len(n.Columns) < 3 || n.Records(registry.Records{}) == nil {
			t.Errorf("%s is not complete: %+v", name, n)
		}
	}
}
