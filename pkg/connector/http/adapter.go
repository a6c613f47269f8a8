package http

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/aipfleet/aipfleet/pkg/connector"
	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/peer"
)

// Config of an adapter. Template and Manifest are required.
type Config struct {
	Template *Template
	Manifest fleet.Manifest
	// Account fills {account.NAME}: settings of the account, none of them secret.
	Account map[string]string
	// Peer says which addresses may be dialled, and how. Its MaxResponse is the
	// template's.
	Peer peer.Config
}

// Adapter is a connector that makes requests. It is safe for concurrent use and runs
// nothing of its own.
type Adapter struct {
	cfg     Config
	byCap   map[fleet.CapabilityID]fleet.Implementation
	base    peer.Endpoint
	account envelope.Value
	client  *peer.Client
	redact  connector.Redactor
}

// New checks that the template has what the manifest claims, and finds the origin. It
// sends nothing.
func New(cfg Config) (*Adapter, error) {
	if err := cfg.Template.Covers(cfg.Manifest); err != nil {
		return nil, err
	}
	account, err := valueOf(cfg.Account)
	if err != nil {
		return nil, err
	}
	base, absent, err := cfg.Template.base.render(scope{"account": account}, func(s string) (string, error) { return s, nil })
	if err != nil || absent {
		return nil, fleet.Invalidf(CodeTemplate, "the product's address is not configured").Because("base_url needs an account setting that is missing")
	}
	a := &Adapter{cfg: cfg, account: account, byCap: map[fleet.CapabilityID]fleet.Implementation{}}
	if a.base, err = peer.ParseEndpoint(base); err != nil {
		return nil, err
	}
	for _, i := range cfg.Manifest.Implementations {
		a.byCap[i.Capability] = i
	}
	cfg.Peer.MaxResponse = cfg.Template.most
	a.client = peer.NewClient(cfg.Peer)
	return a, nil
}

// Close drops idle connections.
func (a *Adapter) Close() { a.client.Close() }

// Discover implements connector.Connector. A template states no schemas.
func (a *Adapter) Discover(context.Context) ([]connector.Offer, error) {
	var all []connector.Offer
	for _, name := range a.cfg.Template.Tools() {
		all = append(all, connector.Offer{Tool: name})
	}
	return all, nil
}

// Health implements connector.Connector: there is nothing that could be down here.
func (a *Adapter) Health(context.Context) error { return nil }

// Invoke implements connector.Connector.
func (a *Adapter) Invoke(ctx context.Context, call connector.Call) (connector.Result, error) {
	return a.do(ctx, call, a.cfg.Template.calls[a.byCap[call.Capability].Tool], nil), nil
}

// Plan implements connector.Planner.
func (a *Adapter) Plan(ctx context.Context, call connector.Call) (connector.Result, error) {
	return a.do(ctx, call, a.cfg.Template.calls[a.byCap[call.Capability].PlanTool], nil), nil
}

// Commit implements connector.Committer; the plan is {plan…}.
func (a *Adapter) Commit(ctx context.Context, call connector.Call, plan json.RawMessage) (connector.Result, error) {
	return a.do(ctx, call, a.cfg.Template.calls[a.byCap[call.Capability].Tool], map[string]json.RawMessage{"plan": plan}), nil
}

// Release implements connector.Compensator; the plan is {plan…}.
func (a *Adapter) Release(ctx context.Context, q connector.Query, plan json.RawMessage) (connector.Result, error) {
	u := a.cfg.Template.undos[a.byCap[q.Capability].CompensateTool]
	if u == nil {
		return notStarted("the template has no such request"), nil
	}
	return a.do(ctx, callOf(q), u.release, map[string]json.RawMessage{"plan": plan}), nil
}

// Compensate implements connector.Compensator; the earlier answer is {result…}, its
// key {undone_key}.
func (a *Adapter) Compensate(ctx context.Context, call connector.Call, done connector.Done) (connector.Result, error) {
	u := a.cfg.Template.undos[a.byCap[call.Capability].CompensateTool]
	if u == nil {
		return notStarted("the template has no such request"), nil
	}
	key, err := json.Marshal(done.IdempotencyKey)
	if err != nil {
		return connector.Result{}, err
	}
	return a.do(ctx, call, u.compensate, map[string]json.RawMessage{"result": done.Output, "undone_key": key, "operation": done.Operation}), nil
}

func callOf(q connector.Query) connector.Call {
	return connector.Call{Action: q.Action, Capability: q.Capability, IdempotencyKey: q.IdempotencyKey, Credential: q.Credential}
}

func notStarted(why string) connector.Result {
	return connector.Result{Class: connector.NotStarted, Why: why}
}

// do fills a request, sends it once and concludes.
func (a *Adapter) do(ctx context.Context, call connector.Call, r *request, more map[string]json.RawMessage) connector.Result {
	if r == nil {
		return notStarted("the template has no such request")
	}
	answer, result := a.send(ctx, call, r, more)
	if result.Class == "" {
		result = r.conclude(answer)
	}
	return a.redact.Result(result)
}

// send returns an answer, or what is known without one.
func (a *Adapter) send(ctx context.Context, call connector.Call, r *request, more map[string]json.RawMessage) (peer.Answer, connector.Result) {
	s, err := a.scopeOf(call, more)
	if err != nil {
		return peer.Answer{}, notStarted("the call's values cannot be read: " + err.Error())
	}
	filled, err := r.fill(s, a.cfg.Template.headers)
	if err != nil {
		return peer.Answer{}, notStarted("the request cannot be filled: " + fleet.Printable(err.Error(), 300))
	}
	if err := a.authorise(&filled, call.Credential); err != nil {
		return peer.Answer{}, notStarted(err.Error())
	}
	answer, err := a.client.Do(ctx, a.base, filled)
	switch {
	case err == nil:
		return answer, connector.Result{}
	case !peer.Written(err):
		return answer, notStarted("the product was not reached: " + fleet.Printable(err.Error(), 300))
	}
	return answer, connector.Result{Class: connector.Unknown, Why: "the request was sent and its answer did not come: " + fleet.Printable(err.Error(), 300)}
}

// authorise puts the credential into its header, and nowhere else.
func (a *Adapter) authorise(r *peer.Request, credential connector.Secret) error {
	auth := a.cfg.Template.auth
	if auth.Header == "" {
		return nil
	}
	if credential == nil || credential.Reveal() == "" {
		return errors.New("the template sends a credential, and the call has none")
	}
	a.redact.Add(credential)
	value := credential.Reveal()
	if _, err := headerValue(value); err != nil {
		return errors.New("the credential cannot be put into a header")
	}
	if auth.Scheme != "" {
		value = auth.Scheme + " " + value
	}
	r.Header.Set(auth.Header, value)
	return nil
}

// scopeOf is what the placeholders stand for in one call.
func (a *Adapter) scopeOf(call connector.Call, more map[string]json.RawMessage) (scope, error) {
	s := scope{"account": a.account}
	texts := map[string]string{"idempotency_key": call.IdempotencyKey, "action_id": call.Action.String(), "tenant": call.Tenant.String()}
	if !call.Deadline.IsZero() {
		texts["deadline"] = call.Deadline.UTC().Format(time.RFC3339Nano)
	}
	for name, value := range texts {
		v, err := valueOf(value)
		if err != nil {
			return nil, err
		}
		s[name] = v
	}
	if len(call.Input) > 0 {
		more = withInput(more, call.Input)
	}
	for name, raw := range more {
		if len(raw) == 0 {
			continue
		}
		v, err := envelope.ParseStrict(raw, envelope.Limits{})
		if err != nil {
			return nil, err
		}
		s[name] = v
	}
	return s, nil
}

func withInput(more map[string]json.RawMessage, input json.RawMessage) map[string]json.RawMessage {
	all := map[string]json.RawMessage{"input": input}
	for name, raw := range more {
		all[name] = raw
	}
	return all
}

func valueOf(v any) (envelope.Value, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return envelope.Value{}, err
	}
	return envelope.ParseStrict(raw, envelope.Limits{})
}

// Reconcile implements connector.Reconciler through the capability's look.
func (a *Adapter) Reconcile(ctx context.Context, q connector.Query) (connector.Finding, error) {
	l := a.cfg.Template.looks[a.byCap[q.Capability].ReconcileTool]
	if l == nil {
		return connector.Finding{}, fleet.Errorf(fleet.NotFound, "connector.reconcile", "the capability cannot be reconciled").
			Because("the template has no look for it")
	}
	answer, failed := a.send(ctx, callOf(q), &l.request, map[string]json.RawMessage{"operation": q.Operation})
	if failed.Class != "" {
		return connector.Finding{}, unanswered(a.redact.Text(failed.Why))
	}
	return l.finding(answer, &a.redact)
}

func unanswered(why string) error {
	return fleet.Errorf(fleet.Unavailable, "connector.reconcile", "the product did not say whether it happened").Because("%s", why)
}

// finding reads what looking found.
func (l *look) finding(answer peer.Answer, redact *connector.Redactor) (connector.Finding, error) {
	if l.absent[answer.Status] {
		return connector.Finding{Evidence: evidence(answer)}, nil
	}
	if !l.outcome.succeeded[answer.Status] {
		return connector.Finding{}, unanswered(l.conclude(answer).Why)
	}
	doc := readAnswer(answer)
	if doc.Kind() == envelope.Invalid {
		return connector.Finding{}, unanswered("its answer is not JSON")
	}
	found, ok := l.found.find(doc)
	if !ok {
		return connector.Finding{Evidence: evidence(answer)}, nil
	}
	result := connector.Result{Class: connector.Succeeded, Output: found.Raw()}
	if v, ok := l.output.find(doc); ok && len(l.output) > 0 {
		result.Output = v.Raw()
	}
	return connector.Finding{Found: true, Result: redact.Result(result), Evidence: evidence(answer)}, nil
}

func evidence(a peer.Answer) json.RawMessage {
	raw, _ := json.Marshal(map[string]any{"status": a.Status})
	return raw
}
