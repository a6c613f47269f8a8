package fleet

// Kind is the closed set of ways in which the fleet refuses or fails.
type Kind uint8

// The kinds. Unknown ("it may have happened") is never merged with Unavailable
// ("it did not happen"); Contended ("others hold the rows, try again") is never
// merged with CapacityExceeded ("there is no room").
const (
	Internal           Kind = iota // a defect of ours
	Invalid                        // the request itself is wrong
	NotFound                       // no such thing, or not yours
	Conflict                       // the same identity means something else already
	Denied                         // authenticated, and not allowed
	StaleCursor                    // the catalog moved between pages
	BindingUnavailable             // no enabled chain from tenant to capability
	ReplicaUnavailable             // chains, but no replica that may serve now
	CapacityExceeded               // a scope is full; carries Scope and RetryAfter
	Contended                      // busy rows; retry at once is fine
	FenceLost                      // another attempt superseded this one
	LeaseLost                      // the lease epoch is over
	NotAdmitted                    // the release is not admitted for this
	Unavailable                    // a dependency is away; nothing happened
	Unknown                        // it may have happened; reconcile, never repeat blindly
)

// CircuitEffect says what an error of a kind, answered by a host, does to the
// replica's circuit.
type CircuitEffect uint8

// Circuit effects.
const (
	CircuitNone   CircuitEffect = iota // neither counts nor resets
	CircuitCounts                      // counts as a consecutive unknown
)

// KindInfo is one row of the table that maps a kind to every surface.
type KindInfo struct {
	Name       string        // as in JSON and metrics
	HTTPStatus int           // answer of aipd and aiphost
	Code       string        // AIP protocol error code
	Category   string        // AIP protocol error category
	ExitCode   int           // of aipctl
	Retryable  bool          // may the same request succeed later, unchanged
	Circuit    CircuitEffect // effect on the pinned replica
}

// Info returns the row of k. It is the only such mapping in the code base.
func (k Kind) Info() KindInfo {
	if int(k) < len(kindTable) {
		return kindTable[k]
	}
	return kindTable[Internal]
}

// String returns the kind's name.
func (k Kind) String() string { return k.Info().Name }

// MarshalText writes the kind's name.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText parses a kind's name.
func (k *Kind) UnmarshalText(text []byte) error {
	for i, row := range kindTable {
		if row.Name == string(text) {
			*k = Kind(i)
			return nil
		}
	}
	return Invalidf("id.kind", "error kind %q is not known", printable(string(text), 64))
}

// Kinds lists every kind in order.
func Kinds() []Kind {
	all := make([]Kind, len(kindTable))
	for i := range all {
		all[i] = Kind(i)
	}
	return all
}

var kindTable = [...]KindInfo{
	Internal:           {"internal", 500, "AIP_INTERNAL", "internal", 1, false, CircuitNone},
	Invalid:            {"invalid", 400, "AIP_INVALID", "validation", 2, false, CircuitNone},
	NotFound:           {"not_found", 404, "AIP_NOT_FOUND", "not_found", 3, false, CircuitNone},
	Conflict:           {"conflict", 409, "AIP_CONFLICT", "conflict", 5, false, CircuitNone},
	Denied:             {"denied", 403, "AIP_DENIED", "authorization", 4, false, CircuitNone},
	StaleCursor:        {"stale_cursor", 409, "AIP_STALE_CURSOR", "conflict", 5, true, CircuitNone},
	BindingUnavailable: {"binding_unavailable", 404, "AIP_BINDING_UNAVAILABLE", "routing", 1, false, CircuitNone},
	ReplicaUnavailable: {"replica_unavailable", 503, "AIP_REPLICA_UNAVAILABLE", "routing", 1, true, CircuitNone},
	CapacityExceeded:   {"capacity_exceeded", 429, "AIP_CAPACITY_EXCEEDED", "capacity", 1, true, CircuitNone},
	Contended:          {"contended", 503, "AIP_CONTENDED", "capacity", 1, true, CircuitNone},
	FenceLost:          {"fence_lost", 409, "AIP_FENCE_LOST", "conflict", 5, false, CircuitNone},
	LeaseLost:          {"lease_lost", 409, "AIP_LEASE_LOST", "conflict", 5, false, CircuitNone},
	NotAdmitted:        {"not_admitted", 403, "AIP_NOT_ADMITTED", "admission", 1, false, CircuitNone},
	Unavailable:        {"unavailable", 503, "AIP_UNAVAILABLE", "availability", 9, true, CircuitNone},
	Unknown:            {"unknown", 504, "AIP_OUTCOME_UNKNOWN", "uncertain", 7, false, CircuitCounts},
}
