package lifecycle

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"time"

	"github.com/aipfleet/aipfleet/pkg/crashpoint"
	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/peer"
	"github.com/aipfleet/aipfleet/pkg/protocol"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// Codes of the server's own refusals. Those of the lease contract pass unchanged.
const (
	CodeMalformed = "lifecycle.malformed"
	CodeRate      = "lifecycle.rate"
	CodePeer      = "lease.peer" // not declared, or declared for another key: the same answer
)

// ServerConfig of the lifecycle service. Fleet, Signer and Now are required.
type ServerConfig struct {
	Fleet  registry.Fleet
	Signer envelope.Signer
	Now    func() time.Time
	TTL    time.Duration // of every lease; zero means registry.DefaultLeaseTTL
	Log    *slog.Logger
	Rate   Rate // zero means DefaultRate
}

// Server answers control messages. Any number of servers may share a registry; it
// keeps nothing but rate limits.
type Server struct {
	cfg   ServerConfig
	limit *limiter
}

// NewServer checks the configuration.
func NewServer(cfg ServerConfig) (*Server, error) {
	if cfg.TTL == 0 {
		cfg.TTL = registry.DefaultLeaseTTL
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Rate == (Rate{}) {
		cfg.Rate = DefaultRate()
	}
	switch {
	case cfg.Fleet == nil || cfg.Now == nil || cfg.Signer.IsZero():
		return nil, fleet.Invalidf("lifecycle.config", "the lifecycle service needs a registry, a clock and a key")
	case cfg.TTL < registry.MinLeaseTTL || cfg.TTL > registry.MaxLeaseTTL:
		return nil, fleet.Invalidf("lifecycle.config", "the lease time %s is not within %s and %s", cfg.TTL, registry.MinLeaseTTL, registry.MaxLeaseTTL)
	}
	return &Server{cfg: cfg, limit: newLimiter(cfg.Rate)}, nil
}

// Handler serves POST /aip/v1/connector-control.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+protocol.PathControl, s.serve)
	return peer.Strict(mux)
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	data, err := readBody(r)
	var to sender
	var doc protocol.Document
	if err == nil {
		to = claimedSender(data)
		doc, err = s.handle(r.Context(), data, to)
	}
	status := http.StatusOK
	if err != nil {
		e := fleet.AsError(err, "lifecycle.internal")
		status = e.Kind.Info().HTTPStatus
		doc = protocol.ErrorOf(e, "lifecycle")
		s.cfg.Log.Warn("control refused", "code", e.Code, "signer", to.did.String(), "error", e.Error())
	}
	w.Header().Set("Content-Type", protocol.ContentType)
	body, err := s.sign(to, doc)
	if err != nil { // nobody to sign for
		body, _ = json.Marshal(map[string]any{doc.BodyKey(): doc})
	}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

func readBody(r *http.Request) ([]byte, error) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != protocol.ContentType {
		return nil, fleet.Invalidf(CodeMalformed, "the content type is not %s", protocol.ContentType)
	}
	data, err := io.ReadAll(io.LimitReader(r.Body, protocol.MaxControlBytes+1))
	if err != nil || len(data) > protocol.MaxControlBytes {
		return nil, fleet.Invalidf(CodeMalformed, "the message cannot be read, or is above 64 KiB")
	}
	return data, nil
}

// sender is who says to have sent a message. It becomes true when the message opens
// with that key, and matters when the registry finds that the key is the declared one.
type sender struct {
	did envelope.DID
	id  fleet.MessageID
}

func limits() envelope.Limits {
	return envelope.Limits{MaxBytes: protocol.MaxControlBytes, SafeIntegers: true}
}

func claimedSender(data []byte) sender {
	v, err := envelope.ParseStrict(data, limits())
	if err != nil {
		return sender{}
	}
	signer, _ := v.Get("security", "signer")
	id, _ := v.Get("message_id")
	var out sender
	if out.did, err = envelope.ParseDID(signer.Text()); err == nil {
		out.id, err = fleet.ParseMessageID(id.Text())
	}
	if err != nil {
		return sender{}
	}
	return out
}

// handle proves the message, takes the peer's budget, and asks the registry.
func (s *Server) handle(ctx context.Context, data []byte, from sender) (protocol.Document, error) {
	now := s.cfg.Now()
	opened, err := envelope.Open(data, envelope.Expect{
		Purpose: envelope.Lifecycle, Audience: s.cfg.Signer.DID(), Peer: from.did, Now: now, Limits: limits(),
		MessageTypes: []string{protocol.TypeRegister, protocol.TypeHeartbeat, protocol.TypeDrain, protocol.TypeOffline},
	})
	if err != nil {
		return nil, err
	}
	if wait, ok := s.limit.take(from.did, now); !ok {
		e := fleet.Errorf(fleet.CapacityExceeded, CodeRate, "too many control messages from this peer")
		e.Scope, e.RetryAfter = "peer", wait
		return nil, e
	}
	crashpoint.Reach(crashpoint.BeforeLease)
	granted, err := s.apply(ctx, opened)
	crashpoint.Reach(crashpoint.AfterLease)
	if err != nil {
		return nil, samePeerAnswer(err)
	}
	s.limit.known(from.did)
	return leaseDocument(granted), nil
}

// samePeerAnswer hides from a stranger whether a replica is declared.
func samePeerAnswer(err error) error {
	if code := fleet.CodeOf(err); code != CodePeer && code != "lease.replica" {
		return err
	}
	return fleet.Errorf(fleet.Denied, CodePeer, "the signer is not the declared peer of the replica").
		Advise("declare the replica with this host's DID, or start the host with the declared key")
}

func leaseDocument(l registry.Lease) protocol.Lease {
	doc := protocol.Lease{
		Replica: l.Replica, Epoch: l.Epoch, Sequence: max(l.Sequence, 1), ExpiresAt: l.ExpiresAt,
		TTLMS: uint64(l.TTL.Milliseconds()), Intent: l.Intent, Status: l.Status,
	}
	if l.Status == fleet.ReplicaOffline {
		doc.TTLMS = 0
	}
	return doc
}

func (s *Server) apply(ctx context.Context, o envelope.Opened) (registry.Lease, error) {
	claim := registry.RequestClaim{ID: o.Envelope().MessageID.String(), Digest: o.Digest()}
	did := o.Signer().String()
	switch o.Envelope().MessageType {
	case protocol.TypeRegister:
		doc, err := protocol.Read[protocol.Register](o)
		if err != nil {
			return registry.Lease{}, err
		}
		return s.cfg.Fleet.Register(ctx, registration(doc, claim, did, s.cfg.TTL))
	case protocol.TypeHeartbeat:
		doc, err := protocol.Read[protocol.Heartbeat](o)
		if err != nil {
			return registry.Lease{}, err
		}
		return s.cfg.Fleet.Renew(ctx, registry.Beat{
			Replica: doc.Replica, PeerDID: did, Epoch: doc.Epoch, Sequence: doc.Sequence, InFlight: doc.InFlight,
			Ready: doc.Ready, Draining: doc.Draining, TTL: s.cfg.TTL,
		})
	case protocol.TypeDrain:
		doc, err := protocol.Read[protocol.Drain](o)
		if err != nil {
			return registry.Lease{}, err
		}
		return s.cfg.Fleet.Leave(ctx, registry.Departure{Claim: claim, Replica: doc.Replica, PeerDID: did, Epoch: doc.Epoch})
	}
	doc, err := protocol.Read[protocol.Offline](o)
	if err != nil {
		return registry.Lease{}, err
	}
	return s.cfg.Fleet.Leave(ctx, registry.Departure{Claim: claim, Replica: doc.Replica, PeerDID: did, Epoch: doc.Epoch, Offline: true})
}

func registration(doc protocol.Register, claim registry.RequestClaim, did string, ttl time.Duration) registry.Registration {
	return registry.Registration{
		Claim: claim, Replica: doc.Replica, PeerDID: did, ManifestDigest: doc.ManifestDigest, ArtifactDigest: doc.ArtifactDigest,
		Tenant: doc.Tenant, ConfigRevision: doc.ConfigRevision, SecretProviderRef: doc.SecretProviderRef,
		CapabilityCount: int(doc.CapabilityCount), Capacity: doc.Capacity, Journal: doc.Journal, LastEpoch: doc.LastEpoch, Starting: doc.Starting, TTL: ttl,
	}
}

func (s *Server) sign(to sender, doc protocol.Document) ([]byte, error) {
	now := s.cfg.Now()
	env, err := protocol.NewMessage(doc, fleet.NewMessageID(now), now)
	if err != nil {
		return nil, err
	}
	env.InResponseTo = to.id
	return envelope.Seal(env, envelope.LifecycleResponse, s.cfg.Signer, to.did)
}
