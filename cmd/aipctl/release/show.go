package release

import (
	"fmt"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/pkg/admission"
	"github.com/aipfleet/aipfleet/pkg/admission/sigstore"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// described is a package as pack and inspect tell it.
type described struct {
	Package        string            `json:"package"`
	Release        admission.Release `json:"release"`
	PackageDigest  fleet.Digest      `json:"package_digest"`
	ArtifactDigest fleet.Digest      `json:"artifact_digest"`
	ManifestDigest fleet.Digest      `json:"manifest_digest"`
	Capabilities   []capability      `json:"capabilities"`
	Evidence       []evidence        `json:"evidence"`
}

type capability struct {
	ID            fleet.CapabilityID `json:"id"`
	SideEffects   fleet.SideEffects  `json:"side_effects"`
	Idempotency   fleet.Idempotency  `json:"idempotency"`
	ReconcileTool string             `json:"reconcile_tool,omitempty"`
	Tool          string             `json:"mcp_name"` // under which MCP clients see it
}

// evidence is what a bundle claims, before anybody verified it.
type evidence struct {
	File   string       `json:"file"`
	Digest fleet.Digest `json:"digest"`
	Form   string       `json:"form"` // statement, message, or unreadable
	Hint   string       `json:"hint,omitempty"`
}

func describe(dir string, p *admission.Package) described {
	d := described{
		Package: dir, Release: p.Release(), PackageDigest: p.Digest(), ArtifactDigest: p.ArtifactDigest(),
		ManifestDigest: p.ManifestDigest(), Capabilities: []capability{}, Evidence: []evidence{},
	}
	m := p.Manifest()
	for _, c := range m.Capabilities {
		impl, _ := m.Implementation(c.ID)
		d.Capabilities = append(d.Capabilities, capability{c.ID, c.Contract.SideEffects, c.Contract.Idempotency, impl.ReconcileTool, admission.ToolName(c.ID)})
	}
	for _, name := range p.Evidence() {
		data, _ := p.File(name)
		e := evidence{File: name, Digest: fleet.DigestBytes(data), Form: "unreadable"}
		if b, err := (sigstore.Verifier{}).Parse(data); err == nil {
			e.Hint, e.Form = b.Hint, "statement"
			if b.Message != nil {
				e.Form = "message"
			}
		}
		d.Evidence = append(d.Evidence, e)
	}
	return d
}

func showPackage(a *app.App, kind string, d described) error {
	return a.Print(app.View{
		Kind: kind, Item: d, Name: func(any) string { return d.Release.VersionID.String() },
		Text: func() app.Page {
			r := d.Release
			page := app.Page{{Title: r.Type.Name + " " + r.Version, Fields: []app.Field{
				{Label: "Package", Value: d.Package}, {Label: "Version id", Value: r.VersionID.String()}, {Label: "Type", Value: r.Type.ID.String()},
				{Label: "Owner", Value: r.Owner}, {Label: "Sequence", Value: fmt.Sprint(r.Sequence)},
				{Label: "Package digest", Value: d.PackageDigest.String()}, {Label: "Artifact digest", Value: d.ArtifactDigest.String()},
				{Label: "Manifest digest", Value: d.ManifestDigest.String()},
			}}}
			if r.Artifact.Elsewhere() {
				page[0].Fields = append(page[0].Fields, app.Field{Label: "Artifact", Value: r.Artifact.Name() + ", an image kept elsewhere"})
			}
			return append(page, d.tables()...)
		},
	})
}

func (d described) tables() app.Page {
	capabilities := app.Table{Header: []string{"CAPABILITY", "EFFECTS", "IDEMPOTENCY", "RECONCILED BY", "MCP NAME"}}
	for _, c := range d.Capabilities {
		capabilities.Rows = append(capabilities.Rows, []string{c.ID.String(), string(c.SideEffects), string(c.Idempotency), c.ReconcileTool, c.Tool})
	}
	page := app.Page{{Title: "Capabilities", Table: &capabilities}}
	if len(d.Evidence) == 0 {
		return append(page, app.Section{Title: "Evidence", Lines: []string{"none yet: aipctl release sign, aipctl release attest"}})
	}
	list := app.Table{Header: []string{"FILE", "FORM", "KEY HINT"}}
	for _, e := range d.Evidence {
		list.Rows = append(list.Rows, []string{e.File, e.Form, e.Hint})
	}
	return append(page, app.Section{Title: "Evidence (not verified here)", Table: &list})
}

// refused is a package with findings.
type refused struct {
	Package  string              `json:"package"`
	Verified bool                `json:"verified"`
	Findings []admission.Finding `json:"findings"`
}

// showRefused prints every finding and ends with the first one's code.
func showRefused(a *app.App, r refused) error {
	err := a.Print(app.View{
		Kind: "Verification", Item: r, Name: func(any) string { return "refused" },
		Text: func() app.Page { return FindingsPage(r.Package, r.Findings) },
	})
	if err != nil {
		return err
	}
	return admission.Refusal(r.Findings)
}

// ShowRefused prints every finding about something and ends with the first one's code.
func ShowRefused(a *app.App, what string, found []admission.Finding) error {
	return showRefused(a, refused{Package: what, Findings: found})
}

// FindingsPage writes findings for people.
func FindingsPage(what string, found []admission.Finding) app.Page {
	page := app.Page{{Title: fmt.Sprintf("%s is refused: %d finding(s)", what, len(found))}}
	for _, f := range found {
		page = append(page, app.Section{Title: f.Code, Fields: []app.Field{
			{Label: "Place", Value: f.Place}, {Label: "Found", Value: f.What}, {Label: "To satisfy", Value: f.Satisfy},
		}})
	}
	return page
}
