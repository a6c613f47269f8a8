package tui

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/routing"
)

// explainFacts is what the router would decide for an action now, or why it does not say.
type explainFacts struct {
	Explanation routing.Explanation `json:"explanation"`
	Refused     string              `json:"refused,omitempty"`
	request     registry.RouteRequest
}

// explain asks the router, when there is one.
func (c Config) explain(ctx context.Context, r fleet.RouteAssignment) (routing.Explanation, error) {
	if c.Router == nil {
		return routing.Explanation{}, fleet.Errorf(fleet.Denied, "dash.router", "this dashboard may not ask the router")
	}
	return c.Router.Explain(ctx, requestOf(r))
}

func (c Config) readExplain(ctx context.Context, id string) (facts, error) {
	page, err := c.one(ctx, registry.Routes, id)
	if err != nil {
		return nil, err
	}
	if len(page.Routes) == 0 {
		return absent{target{explainPage, id}, "route of " + id}, nil
	}
	route := page.Routes[0].Route
	f := explainFacts{request: requestOf(route)}
	if f.Explanation, err = c.explain(ctx, route); err != nil {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		f.Refused = sayError(err)
	}
	return f, nil
}

func (f explainFacts) object() any { return f }

func (f explainFacts) command() string {
	return fmt.Sprintf("aipctl route explain --tenant %s --capability %s --action %s", shellWord(f.request.Tenant.String()),
		shellWord(f.request.Capability.String()), f.request.Action)
}

func (f explainFacts) lines(time.Time) []line {
	e := f.Explanation
	lines := []line{title("What the router would decide now, reserving nothing"),
		field("tenant", f.request.Tenant.String()), field("capability", f.request.Capability.String()), field("action", f.request.Action.String())}
	if f.Refused != "" {
		return append(lines, told("router", status("refused")+" "+f.Refused))
	}
	lines = append(lines, field("revision", strconv.FormatUint(e.Revision, 10)), field("candidates", strconv.Itoa(e.Total)))
	if e.Pinned != nil {
		lines = append(lines, pinnedLine(*e.Pinned, e.Refusal != nil))
	}
	if !e.Winner.IsZero() {
		lines = append(lines, field("winner", e.Winner.String()))
	}
	if e.Refusal != nil {
		lines = append(lines, told("refusal", fmt.Sprintf("%s error[%s]: %s", status("refused"), e.Refusal.Code, e.Refusal.What)))
	}
	lines = append(lines, field("topology", "aipd's own preference is not known here"))
	lines = append(lines, removedLines(e.Counts)...)
	return append(lines, candidateLines(e)...)
}

func pinnedLine(p routing.PinnedExplanation, refused bool) line {
	now := "would be reserved again"
	switch {
	case p.Reserved:
		now = "holds the reservation"
	case p.Removed != "":
		now = "cannot be reserved now: " + string(p.Removed)
	case refused:
		now = "is its route, for ever"
	}
	return line{kind: fieldLine, label: "pinned", text: p.Replica.String() + " " + now, value: p.Replica.String(), open: target{replicaPage, p.Replica.String()}}
}

func removedLines(counts map[routing.Reason]int) []line {
	if len(counts) == 0 {
		return nil
	}
	lines := []line{{}, title("Removed, by rule")}
	for _, reason := range slices.Sorted(maps.Keys(counts)) {
		lines = append(lines, field(string(reason), strconv.Itoa(counts[reason])))
	}
	return lines
}

func candidateLines(e routing.Explanation) []line {
	if len(e.Candidates) == 0 {
		return nil
	}
	var rows [][]string
	for _, c := range e.Candidates {
		rank, verdict := "", "○ "+string(c.Removed)
		if c.Removed == routing.Eligible {
			rank, verdict = strconv.Itoa(c.Rank), status("eligible")
		}
		rows = append(rows, []string{rank, c.Replica.String(), verdict, strconv.Itoa(int(c.Keys.Priority)), yes(c.Keys.RegionMatch), yes(c.Keys.ZoneMatch),
			strconv.Itoa(int(c.Keys.ActiveBefore)), c.Instance.String(), c.Version.String()})
	}
	lines := []line{{}, title(fmt.Sprintf("Candidates (%d of %d)", len(rows), e.Total))}
	return append(lines, list([]string{"RANK", "REPLICA", "VERDICT", "PRIORITY", "REGION", "ZONE", "ACTIVE", "INSTANCE", "VERSION"}, rows,
		func(i int) target { return target{replicaPage, e.Candidates[i].Replica.String()} })...)
}

func yes(b bool) string {
	if b {
		return "match"
	}
	return "-"
}
