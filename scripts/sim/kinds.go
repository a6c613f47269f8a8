package sim

import "github.com/aipfleet/aipfleet/pkg/action"

// Kinds of faults. Those of a process at a step are made up of the step's name.
const (
	netRefused     = "network: connection refused"
	netDialTimeout = "network: connection not answered"
	netReset       = "network: request lost, connection reset"
	netBlackhole   = "network: request lost in silence"
	netNoReply     = "network: answer lost"
	netDuplicate   = "network: message duplicated"
	netLate        = "network: copy delivered long after"
	netSlow        = "network: message delayed"
	netGarbage     = "network: answer is not the host's"
	netPartition   = "network: host cut off"

	storeAway      = "store: away before the change"
	storeNoReply   = "store: answer lost after the change"
	controlAway    = "lifecycle: away"
	controlNoReply = "lifecycle: answer lost"

	aipdFreeze = "aipd: stopped and continued"
	aipdStop   = "aipd: asked to end"
	aipdClock  = "aipd: clock stepped"
	hostFreeze = "host: stopped and continued for two lease times"
	hostAny    = "host: killed at any time"
	hostCommit = "host: killed before a journal write"
	hostWrote  = "host: killed after a journal write"
	hostCall   = "host: killed before the provider was called"
	hostEffect = "host: killed after the provider was called"
	hostAck    = "host: killed before an answer left"
	hostFull   = "host: disk full"
	hostSync   = "host: sync failed"
	hostWiped  = "host: journal lost"
	hostSick   = "host: connector not healthy"

	leaseExpired = "lease: expired"
	archived     = "registry: route of a retryable action archived"
	drained      = "operator: replica drained"
	accepted     = "operator: another journal accepted"
	hasty        = "operator: decided without asking"
	cancelled    = "client: cancel"
	repeated     = "client: same action submitted twice at once"
	conflicting  = "client: same id with other content"
	keyRepeated  = "client: same key under another id"

	callNotWritten = "provider: call not written"
	callRefused    = "provider: refused"
	callLost       = "provider: call lost"
	callNoAnswer   = "provider: answer lost after the effect"
	callSlow       = "provider: slower than the deadline"
)

// steps of an aipd at which it may be killed, before and after.
func steps() []string {
	return []string{"submit", "advance", "claim", "resolve", "lookup", "settle", "send", "due", "note", "decide"}
}

func killAt(step string) string { return "aipd: killed " + step }

// FaultKinds lists every kind of fault that a set of runs must meet.
func FaultKinds() []string {
	all := []string{
		netRefused, netDialTimeout, netReset, netBlackhole, netNoReply, netDuplicate, netLate, netSlow, netGarbage, netPartition,
		storeAway, storeNoReply, controlAway, controlNoReply, aipdFreeze, aipdStop, aipdClock,
		hostFreeze, hostAny, hostCommit, hostWrote, hostCall, hostEffect, hostAck, hostFull, hostSync, hostWiped, hostSick,
		leaseExpired, archived, drained, accepted, hasty, cancelled, repeated, conflicting, keyRepeated,
		callNotWritten, callRefused, callLost, callNoAnswer, callSlow,
	}
	for _, step := range steps() {
		all = append(all, killAt("before "+step), killAt("after "+step))
	}
	return all
}

// ActionMoves lists every step of the action's machine that changes its state.
func ActionMoves() []string {
	var all []string
	for _, from := range action.States() {
		for _, to := range action.States() {
			if from != to && action.CanMove(from, to) {
				all = append(all, move(from, to))
			}
		}
	}
	return all
}

func move(from, to action.State) string { return string(from) + ">" + string(to) }
