package drain

import (
	"slices"
	"strings"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

const maxList = 4 << 20 // bytes of a list of ids

// readList reads ids, one a line.
func (o *Options) readList() ([]string, error) {
	text, err := o.App.ReadInput(o.File, maxList)
	if err != nil {
		return nil, err
	}
	var ids []string
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line != "" {
			ids = append(ids, line)
		}
	}
	if len(ids) == 0 {
		return nil, app.Usagef("input.empty", "the list names no %s", o.Noun).Because("%s has no line with an id", o.File)
	}
	return ids, nil
}

// choose finds the replicas that are meant, each once, by id. When a name leads to none,
// nothing is chosen. Retired ones are left out, unless they are named themselves.
func (o *Options) choose(all []registry.ReplicaRecord) ([]fleet.ReplicaID, error) {
	key := map[string]func(registry.ReplicaRecord) string{
		"replica":  func(r registry.ReplicaRecord) string { return r.ID.String() },
		"instance": func(r registry.ReplicaRecord) string { return r.Instance.String() },
		"version":  func(r registry.ReplicaRecord) string { return r.Version.String() },
		"zone":     func(r registry.ReplicaRecord) string { return r.Topology.Zone },
		"region":   func(r registry.ReplicaRecord) string { return r.Topology.Region },
	}[o.Noun]
	wanted := map[string]bool{}
	for _, id := range o.IDs {
		wanted[id] = true
	}
	var chosen []fleet.ReplicaID
	known, found := []string{}, map[string]bool{}
	for _, r := range all {
		name := key(r)
		known = append(known, name)
		if !wanted[name] || r.Live.Status == fleet.ReplicaRetired && o.Noun != "replica" {
			continue
		}
		chosen, found[name] = append(chosen, r.ID), true
	}
	missing := slices.DeleteFunc(slices.Clone(o.IDs), func(id string) bool { return found[id] })
	if len(missing) > 0 {
		return nil, o.missing(missing, known)
	}
	return chosen, nil
}

// missing names what leads to no replica; nothing was changed yet.
func (o *Options) missing(ids, known []string) error {
	e := fleet.Errorf(fleet.NotFound, o.Noun+".not_found", "no replica belongs to %s %s", o.Noun, few(ids))
	if o.Noun == "replica" {
		e = fleet.Errorf(fleet.NotFound, "replica.not_found", "no replica %s", few(ids))
	}
	if near := app.Suggest(ids[0], slices.Compact(known)); len(near) > 0 {
		return e.Advise("did you mean %s?", strings.Join(near, " or "))
	}
	return e.Advise("aipctl get replicas")
}

const shownOfMany = 5

// few names the first ones of many.
func few(names []string) string {
	more := ""
	if len(names) > shownOfMany {
		more = " and " + app.Plural(len(names)-shownOfMany, "other")
		names = names[:shownOfMany]
	}
	return fleet.Printable(strings.Join(names, ", "), 600) + more
}
