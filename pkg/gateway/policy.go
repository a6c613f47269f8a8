package gateway

import (
	"slices"
	"strings"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Effect is what a rule does.
type Effect string

// Effects.
const (
	Allow Effect = "allow"
	Deny  Effect = "deny"
)

// Rule says who may call what. A text matches exactly, or as a prefix when it ends
// in *. An empty list matches everything. The file format:
//
//	rules:
//	  - effect: allow                 # or deny
//	    principals: ["alice", "svc-*"]
//	    tenants: ["tenant-a"]
//	    capabilities: ["ticketdesk:*"]
//	    side_effects: [none, read, write]   # none, read, write, destructive
//	    risk: [low, medium]                 # low, medium, high, critical
//
// One matching deny outweighs every allow; without a matching allow the call is
// denied. A rule without a single condition is refused: it is too easily a mistake.
type Rule struct {
	Effect       Effect              `yaml:"effect"`
	Principals   []string            `yaml:"principals"`
	Tenants      []string            `yaml:"tenants"`
	Capabilities []string            `yaml:"capabilities"`
	SideEffects  []fleet.SideEffects `yaml:"side_effects"`
	Risk         []string            `yaml:"risk"`
}

// Policy is a list of rules. The empty policy denies everything.
type Policy struct {
	Rules []Rule `yaml:"rules"`
}

// CodePolicy is the code of a call that the policy denies.
const CodePolicy = "policy.denied"

// LoadPolicy reads a rule file strictly.
func LoadPolicy(path string) (Policy, error) {
	var p Policy
	if err := loadYAML(path, &p); err != nil {
		return Policy{}, err
	}
	for i, r := range p.Rules {
		if why := r.flaw(); why != "" {
			return Policy{}, fileError(path, "rules[%d]: %s", i, why)
		}
	}
	return p, nil
}

func (r Rule) flaw() string {
	switch {
	case r.Effect != Allow && r.Effect != Deny:
		return "effect is not allow or deny"
	case len(r.Principals)+len(r.Tenants)+len(r.Capabilities)+len(r.SideEffects)+len(r.Risk) == 0:
		return `it has no condition; to mean everybody, write principals: ["*"]`
	}
	for _, text := range slices.Concat(r.Principals, r.Tenants, r.Capabilities) {
		if text == "" || strings.Contains(strings.TrimSuffix(text, "*"), "*") {
			return "a text is empty, or has a * that is not at its end"
		}
	}
	for _, s := range r.SideEffects {
		if s != fleet.EffectNone && s != fleet.EffectRead && s != fleet.EffectWrite && s != fleet.EffectDestructive {
			return "side_effects has a word other than none, read, write, destructive"
		}
	}
	for _, s := range r.Risk {
		if !slices.Contains([]string{"low", "medium", "high", "critical"}, s) {
			return "risk has a word other than low, medium, high, critical"
		}
	}
	return ""
}

// Allows reports whether the identity may call the capability.
func (p Policy) Allows(who Identity, what fleet.CapabilityDefinition) bool {
	allowed := false
	for _, r := range p.Rules {
		if !r.matches(who, what) {
			continue
		}
		if r.Effect == Deny {
			return false
		}
		allowed = true
	}
	return allowed
}

// Check is Allows as an error that says what to do.
func (p Policy) Check(who Identity, what fleet.CapabilityDefinition) error {
	if p.Allows(who, what) {
		return nil
	}
	return fleet.Errorf(fleet.Denied, CodePolicy, "you may not call %s", what.ID).
		Because("the policy of this aipd denies it, or does not allow it").
		Advise("ask the platform's operator for a rule")
}

// matches treats a capability without a risk as the riskiest, and one without side
// effects stated as destructive.
func (r Rule) matches(who Identity, what fleet.CapabilityDefinition) bool {
	risk, effects := what.Risk, what.Contract.SideEffects
	if risk == "" {
		risk = "critical"
	}
	if effects == "" {
		effects = fleet.EffectDestructive
	}
	return anyText(r.Principals, who.Principal) && anyText(r.Tenants, who.Tenant.String()) &&
		anyText(r.Capabilities, what.ID.String()) &&
		(len(r.SideEffects) == 0 || slices.Contains(r.SideEffects, effects)) &&
		(len(r.Risk) == 0 || slices.Contains(r.Risk, risk))
}

func anyText(patterns []string, text string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool {
		prefix, open := strings.CutSuffix(p, "*")
		return p == text || open && strings.HasPrefix(text, prefix)
	})
}
