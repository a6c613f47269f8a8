package release

import (
	"debug/buildinfo"
	"encoding/json"
	"time"

	"github.com/spf13/pflag"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/pkg/admission"
)

// buildFacts is what the caller states about a build.
type buildFacts struct {
	builderID, repository, ref, commit, finished, invocation string
}

func (b *buildFacts) bind(f *pflag.FlagSet) {
	f.StringVar(&b.builderID, "builder-id", "", "provenance: `URI` of the builder")
	f.StringVar(&b.repository, "source-repository", "", "provenance: source `repository`")
	f.StringVar(&b.ref, "source-ref", "", "provenance: `ref` that was built, refs/tags/…")
	f.StringVar(&b.commit, "source-commit", "", "provenance: commit that was built (default: as in the artifact's build information)")
	f.StringVar(&b.invocation, "invocation-id", "", "provenance: the builder's `id` of this run")
	f.StringVar(&b.finished, "finished-at", "", "provenance: when the build finished, RFC 3339 (default: now, for attesting right after building)")
}

// provenance writes SLSA provenance of what the caller states and of what the
// artifact itself tells about its build. The manifest and release.yaml are bound
// as byproducts.
func (b buildFacts) provenance(dir string, p *admission.Package, now time.Time) (admission.Provenance, error) {
	var out admission.Provenance
	if b.builderID == "" || b.repository == "" || b.ref == "" {
		return out, app.Usagef("usage.flag", "provenance needs --builder-id, --source-repository and --source-ref").
			Advise("state them, or give --predicate FILE from your builder")
	}
	finished := now.UTC().Truncate(time.Second)
	if b.finished != "" {
		at, err := time.Parse(time.RFC3339, b.finished)
		if err != nil {
			return out, app.Usagef("usage.flag", "--finished-at is not a time in RFC 3339").Caused(err)
		}
		finished = at.UTC()
	}
	source, err := json.Marshal(admission.Source{Repository: b.repository, Ref: b.ref})
	if err != nil {
		return out, err
	}
	definition := &out.BuildDefinition
	definition.BuildType = admission.BuildType
	definition.ExternalParameters = map[string]json.RawMessage{"source": source}
	commit := b.commit
	if info, err := buildinfo.ReadFile(entrypoint(dir, p.Release().Artifact)); err == nil {
		definition.InternalParameters = goParameters(info)
		commit = orSetting(commit, info, "vcs.revision")
	}
	resolved := admission.ResourceDescriptor{URI: "git+" + b.repository + "@" + b.ref}
	if commit != "" {
		resolved.Digest = map[string]string{"gitCommit": commit}
	}
	definition.ResolvedDependencies = []admission.ResourceDescriptor{resolved}
	run := &out.RunDetails
	run.Builder.ID = b.builderID
	run.Metadata.InvocationID = b.invocation
	run.Metadata.FinishedOn = finished
	run.Byproducts = p.Byproducts()
	return out, nil
}

func orSetting(value string, info *buildinfo.BuildInfo, key string) string {
	if value != "" {
		return value
	}
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}

// goParameters keeps what the Go toolchain wrote into the artifact.
func goParameters(info *buildinfo.BuildInfo) json.RawMessage {
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	raw, err := json.Marshal(map[string]any{"go": info.GoVersion, "package": info.Path, "settings": settings})
	if err != nil { // strings always encode
		return nil
	}
	return raw
}
