package admission

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// PredicateProvenance is SLSA provenance, version 1.
const PredicateProvenance = "https://slsa.dev/provenance/v1"

// BuildType is the build type of the provenance that release attest makes: how
// the artifact came to be is what its caller states.
const BuildType = "https://github.com/aipfleet/aipfleet/buildtypes/stated/v1"

// Provenance is SLSA provenance v1, as far as it is evaluated or made here.
type Provenance struct {
	BuildDefinition struct {
		BuildType            string                     `json:"buildType"`
		ExternalParameters   map[string]json.RawMessage `json:"externalParameters"`
		InternalParameters   json.RawMessage            `json:"internalParameters,omitempty"`
		ResolvedDependencies []ResourceDescriptor       `json:"resolvedDependencies,omitempty"`
	} `json:"buildDefinition"`
	RunDetails struct {
		Builder struct {
			ID string `json:"id"`
		} `json:"builder"`
		Metadata struct {
			InvocationID string    `json:"invocationId,omitempty"`
			StartedOn    time.Time `json:"startedOn,omitzero"`
			FinishedOn   time.Time `json:"finishedOn,omitzero"`
		} `json:"metadata,omitzero"`
		Byproducts []ResourceDescriptor `json:"byproducts,omitempty"`
	} `json:"runDetails"`
}

// ResourceDescriptor names one thing that a build read or wrote.
type ResourceDescriptor struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest,omitempty"`
}

// Source is where the built source came from.
type Source struct {
	Repository string `json:"repository"`
	Ref        string `json:"ref"`
}

// evaluateProvenance asks: built by a builder this signer may speak for, from an
// allowed source, with nothing of unknown meaning?
func (e *evaluation) evaluateProvenance(d document) {
	var p Provenance
	if !e.decodePredicate(d, &p) {
		return
	}
	rule := *e.policy.doc.Slots.Provenance
	e.checkBuilder(d, rule, p.RunDetails.Builder.ID)
	e.checkParameters(d, rule, p.BuildDefinition.ExternalParameters)
	e.checkSource(d, rule, p)
	for _, made := range p.RunDetails.Byproducts {
		if made.Name != ManifestFile && made.Name != ReleaseFile {
			continue
		}
		got, err := fleet.ParseDigest("sha256:" + made.Digest["sha256"])
		if err != nil {
			e.at(&d, "byproduct_digest", "predicate.runDetails.byproducts", "give "+made.Name+" a sha256 digest", "%s has none", made.Name)
			continue
		}
		e.stated(d, "predicate.runDetails.byproducts", made.Name, got)
	}
	e.checkAge(d, "predicate.runDetails.metadata.finishedOn", p.RunDetails.Metadata.FinishedOn)
}

func (e *evaluation) checkBuilder(d document, rule ProvenanceRule, id string) {
	const place = "predicate.runDetails.builder.id"
	var allowed []string
	for _, b := range rule.Builders {
		if b.Signer == d.key.ID {
			allowed = append(allowed, b.BuilderID)
		}
	}
	satisfy := "build with one of: " + strings.Join(allowed, ", ")
	if len(allowed) == 0 {
		satisfy = "sign with a key that the trust policy pairs with a builder"
	}
	switch {
	case id == "":
		e.at(&d, "builder_missing", place, satisfy, "the provenance names no builder")
	case !slices.Contains(allowed, id):
		e.at(&d, "builder_not_allowed", place, satisfy, "key %s may not speak for builder %q", d.key.ID, id)
	}
}

// checkParameters refuses inputs whose meaning nobody evaluated.
func (e *evaluation) checkParameters(d document, rule ProvenanceRule, parameters map[string]json.RawMessage) {
	known := append([]string{"source", "workflow"}, rule.ExternalParameters...)
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		if !slices.Contains(known, name) {
			e.at(&d, "external_parameter_unknown", "predicate.buildDefinition.externalParameters."+name,
				"leave it out of the build, or list it in external_parameters of the trust policy", "external parameter %q is not known", name)
		}
	}
}

func (e *evaluation) checkSource(d document, rule ProvenanceRule, p Provenance) {
	const place = "predicate.buildDefinition.externalParameters"
	source, ok := readSource(p.BuildDefinition.ExternalParameters)
	if !ok {
		e.at(&d, "source_missing", place, "state {repository, ref} in exactly one of source and workflow", "the provenance does not state one source")
		return
	}
	if !slices.ContainsFunc(rule.Sources, func(s SourceRule) bool { return s.allows(source) }) {
		e.at(&d, "source_not_allowed", place, "build from "+describeSources(rule.Sources), "it was built from %s at %s", source.Repository, source.Ref)
	}
	for _, dep := range p.BuildDefinition.ResolvedDependencies {
		repository, ref, hasRef := strings.Cut(strings.TrimPrefix(dep.URI, "git+"), "@")
		if repository == strings.TrimPrefix(source.Repository, "git+") && hasRef && ref != source.Ref {
			e.at(&d, "source_disagrees", "predicate.buildDefinition.resolvedDependencies", "let the resolved source be the stated one", "the resolved source is at %s", ref)
		}
	}
}

// readSource takes the source from the one parameter that states it.
func readSource(parameters map[string]json.RawMessage) (Source, bool) {
	_, hasSource := parameters["source"]
	raw, hasWorkflow := parameters["workflow"]
	if hasSource {
		raw = parameters["source"]
	}
	if hasSource == hasWorkflow {
		return Source{}, false
	}
	var s Source
	if err := envelope.DecodeStrict(raw, strict(), &s); err != nil || s.Repository == "" || s.Ref == "" {
		return Source{}, false
	}
	return s, true
}

func (r SourceRule) allows(s Source) bool {
	if r.Repository != s.Repository {
		return false
	}
	if prefix, ok := strings.CutSuffix(r.Ref, "*"); ok {
		return strings.HasPrefix(s.Ref, prefix) && len(s.Ref) > len(prefix)
	}
	return r.Ref == s.Ref
}

func describeSources(rules []SourceRule) string {
	var list []string
	for _, r := range rules {
		list = append(list, r.Repository+" at "+r.Ref)
	}
	return strings.Join(list, ", or ")
}
