package describe

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/pkg/admission"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// decision shows what an admission was decided from: who signed which slot, seen
// when, and what the decision had to respect. It is empty for other records.
func decision(a *app.App, record any) app.Page {
	admitted, ok := record.(registry.Admission)
	if !ok {
		return nil
	}
	var report admission.Report
	if err := json.Unmarshal(admitted.Findings, &report); err != nil || report.PackageDigest.IsZero() {
		return nil
	}
	evidence := app.Table{Header: []string{"SLOT", "SIGNER", "IDENTITY", "SEEN", "PREDICATE", "DIGEST"}}
	for _, d := range report.Documents {
		evidence.Rows = append(evidence.Rows, []string{d.Slot, d.Signer, identity(d), seen(a, d), d.PredicateType, d.Digest.String()})
	}
	return app.Page{
		{Title: "Decision", Fields: []app.Field{
			{Label: "Package", Value: report.PackageDigest.String()}, {Label: "Artifact", Value: report.ArtifactDigest.String()},
			{Label: "Manifest", Value: report.ManifestDigest.String()}, {Label: "Policy", Value: report.PolicyDigest.String()},
			{Label: "Evaluated", Value: app.Stamp(report.EvaluatedAt)}, {Label: "Evaluator", Value: report.Evaluator},
			{Label: "Revocation list", Value: fmt.Sprint(report.Revocations)}, {Label: "Earlier releases", Value: fmt.Sprint(len(report.KnownVersions))},
			{Label: "Findings", Value: fmt.Sprint(len(report.Findings))},
		}},
		{Title: "Evidence", Table: &evidence},
	}
}

func identity(d admission.DocumentReport) string {
	if d.Identity == nil {
		return ""
	}
	return d.Identity.Subject
}

func seen(a *app.App, d admission.DocumentReport) string {
	var list []string
	for _, o := range d.Observed {
		list = append(list, o.By+" "+a.Since(o.At))
	}
	return strings.Join(list, ", ")
}
