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
	var b build
	var ok bool
	if d.statement.PredicateType == PredicateProvenance02 {
		b, ok = e.readProvenance02(d)
	} else {
		b, ok = e.readProvenance(d)
	}
	if !ok {
		return
	}
	e.bound[ArtifactDir] = true // its subject was compared
	rule := *e.policy.doc.Slots.Provenance
	e.checkBuilder(d, rule, b)
	e.checkParameters(d, rule, b)
	e.checkSource(d, rule, b)
	e.checkAge(d, b.finishedPlace, b.finished)
}

// build is what both versions of SLSA provenance come down to.
type build struct {
	builder, builderPlace      string
	parameters                 []string // that are not known beforehand
	parametersPlace            string
	source                     Source
	stated                     bool // exactly one source is
	sourcePlace, finishedPlace string
	finished                   time.Time
	resolved                   []ResourceDescriptor
}

func (e *evaluation) readProvenance(d document) (build, bool) {
	var p Provenance
	if !e.decodePredicate(d, &p) {
		return build{}, false
	}
	b := build{
		builder: p.RunDetails.Builder.ID, builderPlace: "predicate.runDetails.builder.id",
		parametersPlace: "predicate.buildDefinition.externalParameters", sourcePlace: "predicate.buildDefinition.externalParameters",
		finished: p.RunDetails.Metadata.FinishedOn, finishedPlace: "predicate.runDetails.metadata.finishedOn",
		resolved: p.BuildDefinition.ResolvedDependencies,
	}
	b.source, b.stated = readSource(p.BuildDefinition.ExternalParameters)
	for _, name := range slices.Sorted(maps.Keys(p.BuildDefinition.ExternalParameters)) {
		if name != "source" && name != "workflow" {
			b.parameters = append(b.parameters, name)
		}
	}
	for _, made := range p.RunDetails.Byproducts {
		if made.Name != ManifestFile && made.Name != ReleaseFile {
			continue
		}
		got, err := fleet.ParseDigest("sha256:" + made.Digest[digestSHA256])
		if err != nil {
			e.at(&d, "byproduct_digest", "predicate.runDetails.byproducts", "give "+made.Name+" a sha256 digest", "%s has none", made.Name)
			continue
		}
		e.stated(d, "predicate.runDetails.byproducts", made.Name, got)
	}
	return b, true
}

func (e *evaluation) checkBuilder(d document, rule ProvenanceRule, b build) {
	var allowed []string
	for _, r := range rule.Builders {
		if r.Signer == d.signer {
			allowed = append(allowed, r.BuilderID)
		}
	}
	satisfy := "build with one of: " + strings.Join(allowed, ", ")
	if len(allowed) == 0 {
		satisfy = "sign as somebody that the trust policy pairs with a builder"
	}
	switch {
	case b.builder == "":
		e.at(&d, "builder_missing", b.builderPlace, satisfy, "the provenance names no builder")
	case !slices.Contains(allowed, b.builder):
		e.at(&d, "builder_not_allowed", b.builderPlace, satisfy, "%s may not speak for builder %q", d.signer, b.builder)
	}
}

// checkParameters refuses inputs whose meaning nobody evaluated.
func (e *evaluation) checkParameters(d document, rule ProvenanceRule, b build) {
	for _, name := range b.parameters {
		if !slices.Contains(rule.ExternalParameters, name) {
			e.at(&d, "external_parameter_unknown", b.parametersPlace+"."+name,
				"leave it out of the build, or list it in external_parameters of the trust policy", "external parameter %q is not known", name)
		}
	}
}

func (e *evaluation) checkSource(d document, rule ProvenanceRule, b build) {
	if !b.stated {
		e.at(&d, "source_missing", b.sourcePlace, "state {repository, ref} in exactly one of source and workflow", "the provenance does not state one source")
		return
	}
	if !slices.ContainsFunc(rule.Sources, func(s SourceRule) bool { return s.allows(b.source) }) {
		e.at(&d, "source_not_allowed", b.sourcePlace, "build from "+describeSources(rule.Sources), "it was built from %s at %s", b.source.Repository, b.source.Ref)
	}
	for _, dep := range b.resolved {
		from, hasRef := sourceOf(dep.URI)
		if from.Repository == strings.TrimPrefix(b.source.Repository, "git+") && hasRef && from.Ref != b.source.Ref {
			e.at(&d, "source_disagrees", b.sourcePlace, "let the resolved source be the stated one", "the resolved source is at %s", from.Ref)
		}
	}
}

// sourceOf reads "git+REPOSITORY@REF".
func sourceOf(uri string) (Source, bool) {
	repository, ref, hasRef := strings.Cut(strings.TrimPrefix(uri, "git+"), "@")
	return Source{Repository: repository, Ref: ref}, hasRef
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
