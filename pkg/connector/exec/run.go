package exec

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/aipfleet/aipfleet/pkg/connector"
	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/oneshot"
)

// Exit codes of a program.
const (
	ExitSucceeded  = 0
	ExitFailed     = 80
	ExitNotStarted = 81
)

// Verbs: what a program is asked for, as its one argument.
const (
	verbDiscover   = "discover"
	verbInvoke     = "invoke"
	verbPlan       = "plan"
	verbCommit     = "commit"
	verbRelease    = "release"
	verbCompensate = "compensate"
	verbReconcile  = "reconcile"
)

// Order is what a program reads from standard input.
type Order struct {
	Tool           string             `json:"tool"`
	Capability     fleet.CapabilityID `json:"capability_id,omitzero"`
	Tenant         fleet.TenantID     `json:"tenant_id,omitzero"`
	Action         fleet.ActionID     `json:"action_id,omitzero"`
	IdempotencyKey string             `json:"idempotency_key,omitempty"`
	Deadline       string             `json:"deadline,omitempty"`
	Input          json.RawMessage    `json:"input,omitempty"`
	Plan           json.RawMessage    `json:"plan,omitempty"`       // of commit and release
	Result         json.RawMessage    `json:"result,omitempty"`     // of compensate: what the undone call answered
	UndoneKey      string             `json:"undone_key,omitempty"` // of compensate: the undone call's key
	Operation      json.RawMessage    `json:"operation,omitempty"`
	Credential     string             `json:"credential,omitempty"`
}

func orderOf(call connector.Call) Order {
	o := Order{Capability: call.Capability, Tenant: call.Tenant, Action: call.Action, IdempotencyKey: call.IdempotencyKey, Input: call.Input}
	if !call.Deadline.IsZero() {
		o.Deadline = call.Deadline.UTC().Format(time.RFC3339Nano)
	}
	return o
}

func orderAbout(q connector.Query) Order {
	return Order{Capability: q.Capability, Action: q.Action, IdempotencyKey: q.IdempotencyKey, Operation: q.Operation}
}

// maxOutput bounds what a program may answer.
const maxOutput = 4 << 20

// run runs the program for one verb and returns how it ended.
func (a *Adapter) run(ctx context.Context, verb string, o Order, credential connector.Secret) (oneshot.Outcome, error) {
	p, err := a.program()
	if err != nil {
		return oneshot.Outcome{Code: -1, Err: err}, nil
	}
	if credential != nil {
		a.redact.Add(credential)
		o.Credential = credential.Reveal()
	}
	input, err := json.Marshal(o)
	if err != nil {
		return oneshot.Outcome{}, err
	}
	log := &connector.Log{Redact: &a.redact, To: a.cfg.Log}
	defer log.End()
	args := append(append([]string{}, p.Args...), verb)
	return oneshot.Run(ctx, oneshot.Program{
		Path: p.Path, Args: args, Dir: p.Dir, Env: a.cfg.Env, Stdin: append(input, '\n'), MaxOutput: maxOutput, Stderr: log,
	}), nil
}

// call makes one call and concludes from the way in which the program ended.
func (a *Adapter) call(ctx context.Context, verb string, o Order, credential connector.Secret) (connector.Result, error) {
	if o.Tool == "" {
		return notStarted("no tool of the program does that"), nil
	}
	if err := a.Health(ctx); err != nil {
		return notStarted(err.Error()), nil
	}
	ran, err := a.run(ctx, verb, o, credential)
	if err != nil {
		return notStarted("the order cannot be written"), nil
	}
	return a.redact.Result(conclude(ran)), nil
}

func notStarted(why string) connector.Result {
	return connector.Result{Class: connector.NotStarted, Why: why}
}

func unknown(format string, args ...any) connector.Result {
	return connector.Result{Class: connector.Unknown, Why: fmt.Sprintf(format, args...)}
}

// maxText bounds what a program's own words may add.
const maxText = 2000

func conclude(ran oneshot.Outcome) connector.Result {
	switch {
	case !ran.Started:
		return notStarted("the program was not started: " + fleet.Printable(fmt.Sprint(ran.Err), 300))
	case ran.TooLong:
		return unknown("the program wrote more than 4 MiB and was killed")
	case ran.Killed:
		return unknown("the program did not end in time and was killed")
	}
	switch ran.Code {
	case ExitSucceeded:
		return connector.Result{Class: connector.Succeeded, Output: outputOf(ran.Output)}
	case ExitFailed:
		return connector.Result{Class: connector.Failed, Failure: failureOf(ran.Output)}
	case ExitNotStarted:
		return notStarted("the program says that nothing happened")
	case -1:
		return unknown("a signal ended the program")
	}
	return unknown("the program ended with code %d", ran.Code)
}

// outputOf keeps a success whatever its output looks like: the code decides.
func outputOf(out []byte) json.RawMessage {
	if v, err := envelope.ParseStrict(out, envelope.Limits{}); err == nil {
		return v.Raw()
	}
	raw, _ := json.Marshal(map[string]string{"text": fleet.Printable(string(out), maxText)})
	return raw
}

func failureOf(out []byte) *connector.Failure {
	var said struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	f := &connector.Failure{Code: "provider.refused", Message: "the program refused"}
	if envelope.DecodeStrict(out, envelope.Limits{}, &said) != nil {
		return f
	}
	if said.Code != "" {
		f.Code = "provider." + fleet.Printable(said.Code, 100)
	}
	if said.Message != "" {
		f.Message = fleet.Printable(said.Message, maxText)
	}
	return f
}
