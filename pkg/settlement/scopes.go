package settlement

import (
	"cmp"
	"slices"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Policies are the two quota policies that bound one attempt.
type Policies struct {
	Deployment fleet.QuotaPolicy // tenant, connector type and global limits
	Binding    fleet.QuotaPolicy // instance, binding and retry limits, and the circuit
}

// Policy resolves a binding's quota reference: "" means the preset fleet; a
// published policy wins over the preset of the same name.
func Policy(ref string, published func(ref string) (fleet.QuotaPolicy, bool)) (fleet.QuotaPolicy, bool) {
	if ref == "" {
		ref = fleet.QuotaFleet
	}
	if p, ok := published(ref); ok {
		return p, true
	}
	return fleet.PresetQuota(ref)
}

// Deployment resolves the deployment policy: the published one named "deployment",
// else the published or preset fleet.
func Deployment(published func(ref string) (fleet.QuotaPolicy, bool)) fleet.QuotaPolicy {
	if p, ok := published(fleet.QuotaDeployment); ok {
		return p
	}
	p, _ := Policy(fleet.QuotaFleet, published)
	return p
}

// Circuit is the circuit policy of an attempt. A disabled policy switches it off.
func (p Policies) Circuit() fleet.CircuitPolicy {
	if !p.Binding.Enabled {
		return fleet.CircuitPolicy{}
	}
	return p.Binding.Circuit
}

// Scopes returns the counters that an attempt takes, in the one order in which they
// are locked: by kind, then key. A limit that is nil, or of a disabled policy, takes
// no counter. retry adds the tenant's retry scope (G09).
func Scopes(b fleet.BindingKey, typ fleet.TypeID, p Policies, retry bool) []fleet.Scope {
	scopes := []fleet.Scope{}
	take := func(kind fleet.ScopeKind, key string, policy fleet.QuotaPolicy, limit *uint32) {
		if policy.Enabled && limit != nil {
			scopes = append(scopes, fleet.Scope{Kind: kind, Key: key, Limit: *limit})
		}
	}
	take(fleet.ScopeBinding, BindingScopeKey(b), p.Binding, p.Binding.Binding)
	take(fleet.ScopeConnectorType, typ.String(), p.Deployment, p.Deployment.ConnectorType)
	take(fleet.ScopeGlobal, GlobalScopeKey, p.Deployment, p.Deployment.Global)
	take(fleet.ScopeInstance, b.Instance.String(), p.Binding, p.Binding.Instance)
	take(fleet.ScopeTenant, b.Tenant.String(), p.Deployment, p.Deployment.Tenant)
	if retry {
		take(fleet.ScopeTenantRetry, b.Tenant.String(), p.Binding, p.Binding.TenantRetry)
	}
	slices.SortFunc(scopes, CompareScopes)
	return scopes
}

// GlobalScopeKey is the key of the one global counter.
const GlobalScopeKey = "global"

// BindingScopeKey is the key of a binding's counter: "tenant|capability|instance".
// An instance belongs to one tenant, so no two bindings share a key.
func BindingScopeKey(b fleet.BindingKey) string {
	return b.Tenant.String() + "|" + b.Capability.String() + "|" + b.Instance.String()
}

// CompareScopes orders scopes as they are locked.
func CompareScopes(a, b fleet.Scope) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Key, b.Key))
}

// Selective reports whether a full scope passes over one candidate only, so that
// another candidate may still win. Tenant, retry and global scopes bound the
// request itself: when one is full the request is refused.
func Selective(kind fleet.ScopeKind) bool {
	return kind == fleet.ScopeBinding || kind == fleet.ScopeInstance || kind == fleet.ScopeConnectorType
}
