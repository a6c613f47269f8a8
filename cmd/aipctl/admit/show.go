package admit

import (
	"fmt"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/cmd/aipctl/publish"
	"github.com/aipfleet/aipfleet/cmd/aipctl/release"
)

func (o *Options) print(r *Result) error {
	view := app.View{
		Kind: "Admission", Item: r, Name: func(any) string { return r.Version.String() },
		Text: func() app.Page { return r.page() },
	}
	if r.Publication != nil {
		view.Revision = r.Publication.After
	}
	return o.App.Print(view)
}

func (r *Result) page() app.Page {
	if r.Outcome == "refused" {
		return release.FindingsPage(r.Package, r.Findings)
	}
	heads := map[string]string{
		"passes":           "the package passes; nothing was written",
		"planned":          "the package passes; nothing was written",
		"already_admitted": "this very package is admitted already; nothing to do",
		"admitted":         "admitted",
	}
	page := app.Page{{Title: "Release " + r.Version.String(), Lines: []string{heads[r.Outcome]}, Fields: []app.Field{
		{Label: "Package", Value: r.PackageDigest.String()}, {Label: "Trust revision", Value: fmt.Sprint(r.TrustRevision)},
		{Label: "Status", Value: app.Status(string(r.Status))},
	}}}
	if r.Report != nil && r.Outcome != "already_admitted" {
		page = append(page, release.ReportPage(*r.Report)...)
	}
	if p := r.Publication; p != nil {
		title := fmt.Sprintf("Revision %d -> %d", p.Before, p.After)
		if r.Outcome == "planned" {
			title = fmt.Sprintf("Would change at revision %d", p.Before)
		}
		page = append(page, app.Section{Title: title, Lines: publish.Lines(*p)})
	}
	if r.Promotion != nil {
		page = append(page, app.Section{Title: fmt.Sprintf("Promoted at revision %d", r.Promotion.After)})
	}
	return page
}
