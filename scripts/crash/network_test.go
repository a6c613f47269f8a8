package crash_test

import (
	"bytes"
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/protocol"
	"github.com/aipfleet/aipfleet/scripts/crash"
)

// TestNetwork_G25_ABlackholeBeforeAHost: what is sent is swallowed, and nobody answers.
func TestNetwork_G25_ABlackholeBeforeAHost(t *testing.T) {
	for range rounds() {
		network := rig.Network[only]
		before := network.Touched()
		network.Blackhole(true)
		orders, err := rig.Work(bounded(t), globex, "into a black hole", 4)
		must(t, err)
		until(t, "something is swallowed", func(context.Context) (bool, error) { return network.Touched() > before, nil })
		time.Sleep(time.Second)
		struck(t, "network blackhole", network.Touched() > before)
		network.Blackhole(false)
		settle(t, orders)
	}
}

// TestNetwork_G27_Delay: every chunk is late, and the same messages are sent again.
func TestNetwork_G27_Delay(t *testing.T) {
	network := rig.Network[only]
	before := network.Touched()
	network.Delay(700 * time.Millisecond)
	orders, err := rig.Work(bounded(t), globex, "slowly", 4)
	must(t, err)
	until(t, "something is delayed", func(context.Context) (bool, error) { return network.Touched() > before+2, nil })
	struck(t, "network delay", true)
	network.Delay(0)
	settle(t, orders)
}

// TestNetwork_G27_LostAnswers: the host did it, its answers are lost one after the other.
func TestNetwork_G27_LostAnswers(t *testing.T) {
	for range rounds() {
		network := rig.Network[only]
		before := network.Touched()
		network.LoseAnswers(5)
		orders, err := rig.Work(bounded(t), globex, "answers lost", 4)
		must(t, err)
		until(t, "answers are lost", func(context.Context) (bool, error) { return network.Touched() >= before+3, nil })
		struck(t, "answers of a host lost", true)
		settle(t, orders)
	}
}

// retryable is an action that the host promised not to have started: its message was
// caught on the way, and the status query came first.
func retryable(t *testing.T, title string) *crash.Order {
	t.Helper()
	rig.Network[only].Catch(protocol.TypeAction + `"`)
	o := order(t, crash.First, globex, title)
	v := becomes(t, o, action.Retryable)
	if len(rig.Network[only].Caught()) == 0 {
		t.Fatalf("nothing was caught, and it is %s (%+v)", v.State, v.Problem)
	}
	rig.Network[only].Catch("")
	return o
}

// replayed delivers the caught message at last, and returns the host's answer.
func replayed(t *testing.T, network *crash.NetProxy, o *crash.Order) string {
	t.Helper()
	for _, message := range network.Caught() {
		if !bytes.Contains(message, []byte(o.ID().String())) || !bytes.Contains(message, []byte(protocol.TypeAction+`"`)) {
			continue
		}
		conn, err := net.Dial("tcp", network.Target())
		must(t, err)
		defer func() { _ = conn.Close() }()
		must(t, conn.SetDeadline(time.Now().Add(10*time.Second)))
		_, err = conn.Write(message)
		must(t, err)
		buffer := make([]byte, 64<<10)
		n, err := conn.Read(buffer)
		if err != nil {
			t.Fatalf("the host does not answer: %v\nwhat was caught, %d bytes: %.300s", err, len(message), message)
		}
		return string(buffer[:n])
	}
	t.Fatal("no message of the action was caught")
	return ""
}

// TestNetwork_G41_ADelayedCopyAfterNotStarted: the message of fence 1 arrives after the
// host said that it had not started. It never runs; the retry does, once.
func TestNetwork_G41_ADelayedCopyAfterNotStarted(t *testing.T) {
	o := retryable(t, "delayed copy")
	answer := replayed(t, rig.Network[only], o)
	if !strings.Contains(answer, "not_started") {
		t.Errorf("the delayed copy is answered with %s", answer)
	}
	if calls, err := rig.Calls(o); err != nil || calls != 0 {
		t.Fatalf("the delayed copy called the provider %d times, %v", calls, err)
	}
	struck(t, "delayed copy of a message", true)
	settle(t, []*crash.Order{o})
	if n := len(routeOf(t, o).Attempts); n != 2 {
		t.Errorf("%d attempts, want the caught one and the retry", n)
	}
	if calls, err := rig.Calls(o); err != nil || calls != 1 {
		t.Errorf("%d calls, %v", calls, err)
	}
	again := replayed(t, rig.Network[only], o)
	if calls, err := rig.Calls(o); err != nil || calls != 1 {
		t.Errorf("once more, and %d calls, %v: %s", calls, err, again)
	}
}
