package noun

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// Record is one record with its JSON form, by which columns and filters read it.
type Record struct {
	Item  any
	Value map[string]any
}

// Wrap reads the JSON form of items.
func Wrap(items []any) ([]Record, error) {
	records := make([]Record, len(items))
	for i, item := range items {
		item = withState(item)
		data, err := json.Marshal(item)
		if err != nil {
			return nil, fleet.Errorf(fleet.Internal, "output.encode", "a record cannot be encoded").Caused(err)
		}
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.UseNumber()
		records[i] = Record{Item: item}
		if err := dec.Decode(&records[i].Value); err != nil {
			return nil, fleet.Errorf(fleet.Internal, "output.encode", "a record cannot be encoded").Caused(err)
		}
	}
	return records, nil
}

// RouteView is a route with the state of its newest attempt in two words.
type RouteView struct {
	registry.RouteRecord
	State string `json:"state"` // reserved, or the outcome of the newest attempt
	Fence uint64 `json:"fence"`
}

// withState adds what a record of a route does not write: the state of its newest
// attempt. The token of a fence is a secret between registry and host and is not shown (G06).
func withState(item any) any {
	switch r := item.(type) {
	case registry.RouteRecord:
		return Route(r)
	case registry.ArchivedAction:
		return withoutTokens(r)
	}
	return item
}

func withoutTokens(r registry.ArchivedAction) registry.ArchivedAction {
	if r.Route == nil || r.Route.Record == nil {
		return r
	}
	route, record := *r.Route, Route(*r.Route.Record).RouteRecord
	route.Record = &record
	r.Route = &route
	return r
}

// Route makes the view of a route.
func Route(r registry.RouteRecord) RouteView {
	v := RouteView{RouteRecord: r, State: "unreserved"}
	v.Attempts = append([]fleet.Attempt(nil), r.Attempts...)
	for i := range v.Attempts {
		v.Attempts[i].Fence.Token = ""
	}
	if len(v.Attempts) == 0 {
		return v
	}
	last := v.Attempts[len(v.Attempts)-1]
	v.Fence, v.State = last.Fence.Number, "reserved"
	if last.Settled() {
		v.State = string(last.Settlement.Outcome)
	}
	return v
}

// Get returns the value at a dotted path, or nil.
func (r Record) Get(path string) any {
	var v any = r.Value
	for _, key := range strings.Split(path, ".") {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[key]
	}
	return v
}

// Cell writes a column for people.
func (r Record) Cell(a *app.App, c Column) string {
	v := r.Get(c.Path)
	switch c.Form {
	case Status:
		return app.Status(plain(v))
	case Switch:
		on, _ := v.(bool)
		return app.Enabled(on)
	case Since:
		return a.Since(moment(v))
	case Until:
		return a.Until(moment(v))
	case Count:
		list, _ := v.([]any)
		return strconv.Itoa(len(list))
	}
	return plain(v)
}

// moment parses a time; anything else is the zero time.
func moment(v any) time.Time {
	s, _ := v.(string)
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return time.Time{}
	}
	return t
}

// plain writes a value in one line.
func plain(v any) string {
	switch x := v.(type) {
	case nil:
		return ""
	case string:
		return x
	case bool:
		return strconv.FormatBool(x)
	case json.Number:
		return x.String()
	case []any:
		parts := make([]string, len(x))
		for i, e := range x {
			parts[i] = plain(e)
		}
		return strings.Join(parts, ",")
	case map[string]any:
		return plainMap(x)
	}
	return fmt.Sprint(v)
}

// plainMap writes the one map that appears in a column, a serving version, as
// version:weight, and any other as JSON.
func plainMap(m map[string]any) string {
	if id, ok := m["version_id"].(string); ok && len(m) == 2 {
		return id + ":" + plain(m["weight"])
	}
	data, err := json.Marshal(m)
	if err != nil {
		return ""
	}
	return string(data)
}

// Name is what -o name prints: the first column that identifies the record.
func (n Noun) Name(r Record) string {
	switch n.Registry() {
	case registry.Bindings:
		return plain(r.Get("tenant_id")) + " " + plain(r.Get("capability_id")) + " " + plain(r.Get("instance_id"))
	case registry.Reconciliations:
		return plain(r.Get("action_id")) + "/" + plain(r.Get("fence"))
	}
	return plain(r.Get(n.Columns[0].Path))
}

// Choose returns the columns to show: the named ones, or the default set.
func (n Noun) Choose(named []string, wide bool) ([]Column, error) {
	if len(named) == 0 {
		var shown []Column
		for _, c := range n.Columns {
			if wide || !c.Wide {
				shown = append(shown, c)
			}
		}
		return shown, nil
	}
	shown := make([]Column, 0, len(named))
	for _, name := range named {
		c, err := n.column(strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		shown = append(shown, c)
	}
	return shown, nil
}

// column finds a column by name; a dotted word is a path of its own.
func (n Noun) column(name string) (Column, error) {
	var known []string
	for _, c := range n.Columns {
		if strings.EqualFold(c.Name, name) {
			return c, nil
		}
		known = append(known, c.Name)
	}
	if strings.ContainsAny(name, "._") {
		return Column{Name: name, Path: name}, nil
	}
	return Column{}, app.Unknown("usage.column", "column of "+n.Plural, name, known)
}

// Table lays records out.
func (n Noun) Table(a *app.App, records []Record, columns []Column) app.Table {
	t := app.Table{Header: make([]string, len(columns))}
	for i, c := range columns {
		t.Header[i] = strings.ToUpper(c.Name)
	}
	for _, r := range records {
		row := make([]string, len(columns))
		for i, c := range columns {
			row[i] = r.Cell(a, c)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}
