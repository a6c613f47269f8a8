package admission

import (
	"encoding/json"
	"maps"
	"slices"
	"time"
)

// PredicateProvenance02 is SLSA provenance, version 0.2.
const PredicateProvenance02 = "https://slsa.dev/provenance/v0.2"

// provenance02 is SLSA provenance v0.2, as far as it is evaluated. Its environment
// is the builder's own and no input of the caller.
type provenance02 struct {
	Builder struct {
		ID string `json:"id"`
	} `json:"builder"`
	BuildType  string `json:"buildType"`
	Invocation struct {
		ConfigSource struct {
			URI        string            `json:"uri"`
			Digest     map[string]string `json:"digest"`
			EntryPoint string            `json:"entryPoint"`
		} `json:"configSource"`
		Parameters  map[string]json.RawMessage `json:"parameters"`
		Environment json.RawMessage            `json:"environment"`
	} `json:"invocation"`
	Metadata struct {
		Started  time.Time `json:"buildStartedOn"`
		Finished time.Time `json:"buildFinishedOn"`
	} `json:"metadata"`
	Materials []ResourceDescriptor `json:"materials"`
}

func (e *evaluation) readProvenance02(d document) (build, bool) {
	var p provenance02
	if !e.decodePredicate(d, &p) {
		return build{}, false
	}
	config := p.Invocation.ConfigSource
	b := build{
		builder: p.Builder.ID, builderPlace: "predicate.builder.id",
		parameters: slices.Sorted(maps.Keys(p.Invocation.Parameters)), parametersPlace: "predicate.invocation.parameters",
		sourcePlace: "predicate.invocation.configSource.uri",
		finished:    p.Metadata.Finished, finishedPlace: "predicate.metadata.buildFinishedOn",
		resolved: p.Materials,
	}
	b.source, b.stated = sourceOf(config.URI)
	for _, m := range p.Materials {
		from, _ := sourceOf(m.URI)
		for algorithm, digest := range config.Digest {
			if got, has := m.Digest[algorithm]; has && from.Repository == b.source.Repository && got != digest {
				e.at(&d, "source_disagrees", "predicate.materials", "let the materials hold the stated source", "the material is %s %s, the source is %s", algorithm, got, digest)
			}
		}
	}
	return b, true
}
