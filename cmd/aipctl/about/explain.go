package about

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/cmd/aipctl/noun"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Explanation is what aipctl explain says of a word.
type Explanation struct {
	Word    string   `json:"word"`
	What    string   `json:"what"` // code, area, kind, noun, exit
	Meaning string   `json:"meaning"`
	Next    string   `json:"next,omitempty"`
	Fields  []string `json:"fields,omitempty"`
}

func explainCommand(a *app.App) *cobra.Command {
	list := false
	cmd := &cobra.Command{
		Use: "explain [CODE|KIND|NOUN|exit CODE]", Short: "Say what an error code, an error kind, a noun or an exit code means", GroupID: app.GroupAbout,
		Args:    cobra.MaximumNArgs(2),
		Example: "  aipctl explain publish.revision_moved\n  aipctl explain replica\n  aipctl explain exit 7\n  aipctl explain --list",
		RunE: func(_ *cobra.Command, args []string) error {
			if list || len(args) == 0 {
				return printAll(a)
			}
			e, err := Explain(args)
			if err != nil {
				return err
			}
			return a.Print(app.View{Kind: "Explanation", Item: e, Name: func(any) string { return e.Word }, Text: func() app.Page { return page(e) }})
		},
	}
	cmd.Flags().BoolVar(&list, "list", false, "every word that can be explained")
	return cmd
}

// Explain finds the meaning of a word.
func Explain(words []string) (Explanation, error) {
	if words[0] == "exit" && len(words) == 2 {
		for _, e := range exitCodes() {
			if fmt.Sprint(e.Code) == words[1] {
				return Explanation{Word: "exit " + words[1], What: "exit", Meaning: e.Meaning}, nil
			}
		}
	}
	word := strings.Join(words, " ")
	all := everything()
	for _, e := range all {
		if e.Word == word || e.What == "noun" && e.Word+"s" == word {
			return e, nil
		}
	}
	if area, _, dotted := strings.Cut(word, "."); dotted {
		if e, ok := areaOf(area); ok {
			e.Word, e.What = word, "code"
			return e, nil
		}
	}
	var known []string
	for _, e := range all {
		known = append(known, e.Word)
	}
	e := app.Unknown("explain.unknown", "word", word, known)
	e.Kind = fleet.NotFound
	if strings.HasPrefix(e.Next, "one of") {
		e.Next = "aipctl explain --list"
	}
	return Explanation{}, e
}

func areaOf(area string) (Explanation, bool) {
	for _, e := range areas() {
		if e.Word == area {
			return e, true
		}
	}
	return Explanation{}, false
}

func everything() []Explanation {
	var all []Explanation
	for _, n := range append(noun.All(), noun.Actions()) {
		e := Explanation{Word: n.Single, What: "noun", Meaning: n.About, Next: "aipctl get " + n.Plural}
		for _, c := range n.Columns {
			e.Fields = append(e.Fields, c.Name+": "+c.Path)
		}
		all = append(all, e)
	}
	for _, k := range fleet.Kinds() {
		info := k.Info()
		meaning := fmt.Sprintf("%s HTTP status %d, exit code %d.", kindMeaning(k), info.HTTPStatus, info.ExitCode)
		all = append(all, Explanation{Word: info.Name, What: "kind", Meaning: meaning})
	}
	all = append(all, codes()...)
	all = append(all, families()...)
	for _, e := range exitCodes() {
		all = append(all, Explanation{Word: fmt.Sprintf("exit %d", e.Code), What: "exit", Meaning: e.Meaning})
	}
	return all
}

func printAll(a *app.App) error {
	all := everything()
	slices.SortStableFunc(all, func(x, y Explanation) int { return strings.Compare(x.What, y.What) })
	return a.Print(app.View{Kind: "Explanations", Items: app.Items(all),
		Name: func(item any) string { e, _ := item.(Explanation); return e.Word },
		Table: func(bool) app.Table {
			t := app.Table{Header: []string{"WHAT", "WORD", "MEANING"}}
			for _, e := range all {
				t.Rows = append(t.Rows, []string{e.What, e.Word, e.Meaning})
			}
			return t
		}})
}

func page(e Explanation) app.Page {
	p := app.Page{{Title: e.What + " " + e.Word, Lines: []string{e.Meaning}}}
	if len(e.Fields) > 0 {
		p = append(p, app.Section{Title: "Columns and their JSON paths", Lines: e.Fields})
	}
	if e.Next != "" {
		p = append(p, app.Section{Title: "Next", Lines: []string{e.Next}})
	}
	return p
}

func kindMeaning(k fleet.Kind) string {
	switch k {
	case fleet.Invalid:
		return "The request itself is wrong; the same request never works."
	case fleet.NotFound:
		return "There is no such thing, or it is not yours; the two cannot be told apart."
	case fleet.Conflict:
		return "The same identity means something else already, or the state moved on."
	case fleet.Denied:
		return "Known, and not allowed."
	case fleet.StaleCursor:
		return "The catalog moved between two pages; begin again."
	case fleet.BindingUnavailable:
		return "No enabled chain leads from the tenant to the capability."
	case fleet.ReplicaUnavailable:
		return "There are chains, and no replica that may serve now."
	case fleet.CapacityExceeded:
		return "A scope is full; try again after the time that is named."
	case fleet.Contended:
		return "Others hold the rows; trying again at once is fine."
	case fleet.FenceLost:
		return "Another attempt superseded this one."
	case fleet.LeaseLost:
		return "The lease epoch is over."
	case fleet.NotAdmitted:
		return "The release is not admitted for this."
	case fleet.Unavailable:
		return "A dependency is away; nothing happened."
	case fleet.Unknown:
		return "It may have happened; reconcile, and never repeat blindly."
	}
	return "A defect of the fleet's own."
}
