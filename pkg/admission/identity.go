package admission

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// checkRelease asks whether this owner may release this type, and whether the
// release is newer than every admitted one.
func (e *evaluation) checkRelease() {
	r := e.pkg.release
	if r.VersionID.IsZero() {
		e.found.add("release.version_id_missing", ReleaseFile+"#version_id", "pack the release; release pack mints the id", "the release has no version id")
	}
	if r.Version != e.pkg.manifest.Version {
		e.found.add("manifest.version_mismatch", ManifestFile+"#version", "write the same version in "+ReleaseFile+" and "+ManifestFile, "manifest version %q, release version %q", e.pkg.manifest.Version, r.Version)
	}
	e.checkOwner()
	e.checkKnownType()
	if e.repeated = e.admittedBefore(); !e.repeated {
		e.checkSequence()
		return
	}
	for _, v := range e.known.Versions {
		if v.Attestation.PackageDigest == e.pkg.Digest() && v.Status == fleet.VersionRevoked {
			e.found.add("release.version_revoked", ReleaseFile+"#version_id", "release anew; revoking is final", "this very package was admitted as version %s and revoked", v.Version)
		}
	}
}

func (e *evaluation) checkOwner() {
	r := e.pkg.release
	rule, ok := e.policy.typeRule(r.Type.ID)
	if !ok {
		e.found.add("release.type_not_allowed", ReleaseFile+"#type.id", "give the type a rule in the trust policy", "no rule of the trust policy matches %s", r.Type.ID)
		return
	}
	if !slices.Contains(rule.Owners, r.Owner) {
		e.found.add("release.owner_not_allowed", ReleaseFile+"#owner", "let one of these release it: "+strings.Join(rule.Owners, ", "), "owner %q may not release %s", r.Owner, r.Type.ID)
	}
}

func (e *evaluation) checkKnownType() {
	known, r := e.known.Type, e.pkg.release
	if known == nil {
		return
	}
	if known.Owner != r.Owner || known.Name != r.Type.Name {
		e.found.add("release.type_mismatch", ReleaseFile+"#type", "name the type as the registry does", "type %s is %q of %q there, %q of %q here", known.ID, known.Name, known.Owner, r.Type.Name, r.Owner)
	}
	if !known.Enabled {
		e.found.add("release.type_disabled", ReleaseFile+"#type.id", "enable the type first", "type %s is disabled", known.ID)
	}
}

// checkSequence refuses an older genuine release, and one that reuses what an
// admitted version is known by. Approvers may name an older one as a rollback; its
// version text, id and artifact are new all the same.
func (e *evaluation) checkSequence() {
	r := e.pkg.release
	for _, v := range e.known.Versions {
		if r.Sequence == v.ReleaseSequence || r.Sequence < v.ReleaseSequence && !e.rollbackApproved() {
			e.found.add("release.sequence_replayed", ReleaseFile+"#release_sequence", fmt.Sprintf("release with a sequence above %d", v.ReleaseSequence),
				"sequence %d is not above %d of version %s", r.Sequence, v.ReleaseSequence, v.Version)
		}
		if r.Version == v.Version {
			e.found.add("release.version_taken", ReleaseFile+"#version", "choose a new version text", "version %q is admitted as %s", v.Version, v.ID)
		}
		if r.VersionID == v.ID {
			e.found.add("release.version_id_taken", ReleaseFile+"#version_id", "pack again for a new id", "version id %s is taken", v.ID)
		}
		if e.pkg.ArtifactDigest() == v.ArtifactDigest {
			e.found.add("artifact.already_admitted", ArtifactDir, "release another artifact", "version %s has the same artifact", v.Version)
		}
	}
}
