package noun

import (
	"context"

	"github.com/aipfleet/aipfleet/pkg/registry"
)

// List reads one page, or with all every page from there on.
func (n Noun) List(ctx context.Context, reader registry.Reader, selection registry.Selection, all bool) (registry.Records, []Record, error) {
	selection.Noun = n.Registry()
	var records []Record
	for {
		page, err := reader.List(ctx, selection)
		if err != nil {
			return registry.Records{}, nil, err
		}
		more, err := Wrap(n.Records(page))
		if err != nil {
			return registry.Records{}, nil, err
		}
		records = append(records, more...)
		if !all || page.Next == "" {
			return page, records, nil
		}
		selection.After = page.Next
	}
}
