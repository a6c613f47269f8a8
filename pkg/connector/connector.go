package connector

import (
	"context"
	"encoding/json"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Connector is one running connection to one account of one product. Its methods
// are safe for concurrent use.
type Connector interface {
	// Discover lists what the connector offers now. The host compares it with the
	// admitted manifest.
	Discover(ctx context.Context) ([]Offer, error)
	// Health is nil when a call can be made now; otherwise it says why not. It
	// answers from what is known and never waits for the product.
	Health(ctx context.Context) error
	// Invoke makes one call and reports how it ended. An error is another way of
	// saying Unknown. The deadline is that of ctx.
	Invoke(ctx context.Context, call Call) (Result, error)
}

// Canceller is a connector that can stop a call under way.
type Canceller interface {
	// Cancel asks to stop the call of an action. A definite Result says how the
	// call ended; Unknown says that it goes on, or that nobody can tell.
	Cancel(ctx context.Context, q Query) (Result, error)
}

// Reconciler is a connector that can ask the product about an earlier call.
type Reconciler interface {
	// Reconcile looks for the effect of an earlier call. It never causes one.
	Reconcile(ctx context.Context, q Query) (Finding, error)
}

// Offer is one thing a connector can do, under the adapter's own name for it.
type Offer struct {
	Tool        string
	InputSchema json.RawMessage // as the connector states it
}

// Secret is a credential that shows itself only when asked to.
type Secret interface {
	// Reveal returns the value. It must not be logged, stored or sent to anybody
	// but the product (G21).
	Reveal() string
	// String is a fixed text without the value.
	String() string
}

// Call is one call with the context the host vouches for.
type Call struct {
	Tenant         fleet.TenantID
	Action         fleet.ActionID
	Capability     fleet.CapabilityID
	Input          json.RawMessage // validated against the admitted schema
	IdempotencyKey string          // the same for every attempt of the action
	Deadline       time.Time
	Credential     Secret // nil when the capability needs none, or the adapter holds its own
	// CredentialRevision is the revision of Credential that the route pinned, or the
	// current one.
	CredentialRevision string
	// Checkpoint makes what the product said about the operation under way
	// durable, so that it can be asked for after a crash. It may be nil.
	Checkpoint func(ctx context.Context, operation json.RawMessage) error
}

// Class is how a call ended.
type Class string

// The classes. The zero Class is Unknown's equal: it excludes nothing.
const (
	Succeeded  Class = "succeeded"   // definite
	Failed     Class = "failed"      // definite: the product or the tool refused
	NotStarted Class = "not_started" // proved: no byte of the call was written
	Unknown    Class = "unknown"     // it may have happened
)

// Definite reports whether the class leaves no question about the call.
func (c Class) Definite() bool { return c == Succeeded || c == Failed }

// Result is how a call ended.
type Result struct {
	Class Class
	// Output is the product's answer; of a failure, what the product structured about
	// it, if anything.
	Output json.RawMessage
	// Content is what a definite answer says beside Output: texts, images, sounds,
	// resources, each an object as it came and in its order. Nil when there is nothing.
	Content []json.RawMessage
	Failure *Failure // of a definite failure
	Why     string   // of not started and unknown: what is known, without secrets
	// Operation is the product's own name for what was done, when it has one.
	Operation json.RawMessage
}

// Failure is a definite refusal by the product or the tool.
type Failure struct {
	Code    string // stable, dotted: "provider.tool_error"
	Message string // shown to the client
}

// Query asks about an earlier call.
type Query struct {
	Action         fleet.ActionID
	Capability     fleet.CapabilityID
	IdempotencyKey string
	Operation      json.RawMessage // last checkpoint, nil when there was none
	Compensates    fleet.ActionID  // zero unless the call undid another one
	Credential     Secret          // nil when the adapter holds its own
}

// Finding is what the product says about an earlier call.
type Finding struct {
	// Found says that the effect exists; Result is then definite. Not found proves
	// nothing: the call may still be on its way.
	Found    bool
	Result   Result
	Evidence json.RawMessage // what the product answered
}
