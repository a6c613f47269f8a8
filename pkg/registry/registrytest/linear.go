package registrytest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// onRoute plays a call about one action. It may be made by several goroutines at once.
func (m *model) onRoute(c call) (a answer) {
	switch c.verb {
	case resolveVerb:
		a.assignment, a.err = m.Router.Resolve(m.ctx(), asked(c.action))
	case settleVerb:
		a.receipt, a.err = m.Router.Settle(m.ctx(), c.held, fleet.Settlement{Outcome: c.outcome})
	case lookupVerb:
		a.record, a.err = m.Router.Lookup(m.ctx(), acme(), asked(c.action).Action)
	}
	return a
}

// judge looks for an order of the calls that the model accepts.
func (h *History) judge(whole bool) {
	start := h.start
	if whole {
		for range h.spec.replicas {
			start.hosts = append(start.hosts, host{
				status: fleet.ReplicaReady, intent: fleet.IntentRun, healthy: true, epoch: 1, until: start.now.Add(leaseTTL),
			})
		}
	}
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{start} },
		Step: func(state, input, output any) []any {
			after, _ := h.spec.next(state.(belief), input.(call), output.(answer))
			states := make([]any, len(after))
			for i, b := range after {
				states[i] = b
			}
			return states
		},
		Equal: func(x, y any) bool { return x.(belief).equal(y.(belief)) },
		Hash:  func(x any) uint64 { return x.(belief).hash() },
		DescribeOperation: func(input, output any) string {
			return fmt.Sprintf("%s -> %s", input.(call), output.(answer))
		},
	}
	if !whole {
		m.Partition = byAction
	}
	model := m.ToModel()
	if h.Result = porcupine.CheckOperationsTimeout(model, h.calls, judging); h.Result == porcupine.Illegal {
		h.Wrong = stuck(model, h.calls, whole)
	}
}

func byAction(history []porcupine.Operation) [][]porcupine.Operation {
	parts := map[int][]porcupine.Operation{}
	for _, op := range history {
		n := op.Input.(call).action
		parts[n] = append(parts[n], op)
	}
	all := make([][]porcupine.Operation, 0, len(parts))
	for _, part := range parts {
		all = append(all, part)
	}
	return all
}

// hash is equal for equal beliefs.
func (b belief) hash() uint64 {
	sum := uint64(len(b.actions))
	for n, p := range b.actions {
		sum += uint64(n+1) * uint64(31*len(p.attempts)+len(p.last().outcome)+1)
	}
	for i, h := range b.hosts {
		sum += uint64(i+1) * uint64(h.active) << 32
	}
	return sum
}

// stuck names the first part of the history that has no order, call by call.
func stuck(model porcupine.Model, calls []porcupine.Operation, whole bool) string {
	parts := [][]porcupine.Operation{calls}
	if !whole {
		parts = byAction(calls)
	}
	slices.SortFunc(parts, func(x, y []porcupine.Operation) int { return cmp.Compare(len(x), len(y)) })
	model.Partition = nil
	for _, part := range parts {
		if whole || porcupine.CheckOperationsTimeout(model, part, judging) == porcupine.Illegal {
			return listed(model, shortest(model, part))
		}
	}
	return "the parts are legal one by one"
}

// shortest is the shortest beginning of a part that has no order yet. Calls that had
// not ended by then are left open.
func shortest(model porcupine.Model, part []porcupine.Operation) []porcupine.Operation {
	slices.SortFunc(part, func(x, y porcupine.Operation) int { return cmp.Compare(x.Call, y.Call) })
	n, _ := slices.BinarySearchFunc(part, true, func(op porcupine.Operation, _ bool) int {
		if porcupine.CheckOperationsTimeout(model, until(part, op.Call), judging) == porcupine.Illegal {
			return 1
		}
		return -1
	})
	if n == len(part) {
		return part
	}
	return until(part, part[n].Call)
}

// until cuts a history at a time: later calls are left out, and those that had no
// answer yet become open-ended.
func until(part []porcupine.Operation, at int64) []porcupine.Operation {
	var begun []porcupine.Operation
	for _, op := range part {
		if op.Call > at {
			continue
		}
		if op.Return > at {
			op.Output, op.Return = answer{lost: true}, math.MaxInt64
		}
		begun = append(begun, op)
	}
	return begun
}

func listed(model porcupine.Model, part []porcupine.Operation) string {
	var text strings.Builder
	last := part[max(0, len(part)-12):]
	fmt.Fprintf(&text, "the last %d of %d calls:", len(last), len(part))
	for _, op := range last {
		fmt.Fprintf(&text, "\n  %d-%d client %d: %s", op.Call, op.Return, op.ClientId, model.DescribeOperation(op.Input, op.Output))
	}
	return text.String()
}
