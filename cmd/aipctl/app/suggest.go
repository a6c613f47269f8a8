package app

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Suggest returns the known words nearest to a mistyped one, best first, at most three.
func Suggest(word string, known []string) []string {
	type near struct {
		word string
		d    int
	}
	var found []near
	for _, k := range known {
		d := distance(strings.ToLower(word), strings.ToLower(k))
		if d <= 2 || len(word) >= 3 && strings.HasPrefix(k, word) {
			found = append(found, near{k, d})
		}
	}
	slices.SortStableFunc(found, func(x, y near) int { return x.d - y.d })
	var words []string
	for _, n := range found[:min(3, len(found))] {
		words = append(words, n.word)
	}
	return words
}

// Unknown is the refusal of a word that is not in a closed set.
func Unknown(code, what, word string, known []string) *fleet.Error {
	e := Usagef(code, "unknown %s %q", what, fleet.Printable(word, 80))
	if near := Suggest(word, known); len(near) > 0 {
		return e.Advise("did you mean %s?", strings.Join(near, " or "))
	}
	return e.Advise("one of: %s", strings.Join(known, ", "))
}

// unknownCommand finds a word at a command's place that names none.
func unknownCommand(root *cobra.Command, args []string) error {
	cmd, rest, _ := root.Find(args)
	if cmd == nil || !cmd.HasAvailableSubCommands() {
		return nil
	}
	word := firstWord(cmd, rest)
	if word == "" || word == "help" || strings.HasPrefix(word, "__") {
		return nil
	}
	var known []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			known = append(known, c.Name())
		}
	}
	e := Usagef("usage.command", "unknown command %q for %q", fleet.Printable(word, 80), cmd.CommandPath())
	near := Suggest(word, known)
	if len(near) == 0 {
		return e.Advise("%s --help", cmd.CommandPath())
	}
	for i := range near {
		near[i] = cmd.CommandPath() + " " + near[i]
	}
	return e.Advise("did you mean %s?", strings.Join(near, " or "))
}

// firstWord returns the first argument that is neither a flag nor a flag's value.
func firstWord(cmd *cobra.Command, args []string) string {
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if !strings.HasPrefix(arg, "-") || arg == "-" {
			return arg
		}
		if !strings.Contains(arg, "=") && takesValue(cmd, arg) {
			i++
		}
	}
	return ""
}

func takesValue(cmd *cobra.Command, arg string) bool {
	name := strings.TrimLeft(arg, "-")
	var f *pflag.Flag
	if strings.HasPrefix(arg, "--") {
		f = lookup(cmd, name)
	} else if len(name) == 1 {
		f = cmd.Flags().ShorthandLookup(name)
		if f == nil {
			f = cmd.Root().PersistentFlags().ShorthandLookup(name)
		}
	}
	return f != nil && f.NoOptDefVal == ""
}

func lookup(cmd *cobra.Command, name string) *pflag.Flag {
	if f := cmd.Flags().Lookup(name); f != nil {
		return f
	}
	return cmd.Root().PersistentFlags().Lookup(name)
}

// flagError turns a parse error of the flags into a refusal with a suggestion.
func flagError(cmd *cobra.Command, err error) error {
	var missing *pflag.NotExistError
	if !errors.As(err, &missing) {
		return Usagef("usage.flag", "%s", fleet.Printable(err.Error(), 200)).Advise("%s --help", cmd.CommandPath())
	}
	name := missing.GetSpecifiedName()
	e := Usagef("usage.flag", "unknown flag %q for %q", fleet.Printable(name, 80), cmd.CommandPath())
	var known []string
	add := func(f *pflag.Flag) { known = append(known, f.Name) }
	cmd.Flags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	if near := Suggest(name, known); len(near) > 0 {
		return e.Advise("did you mean --%s?", strings.Join(near, " or --"))
	}
	return e.Advise("%s --help", cmd.CommandPath())
}

// distance is the number of single-character edits from x to y, a swap of
// neighbours counting as one.
func distance(x, y string) int {
	a, b := []rune(x), []rune(y)
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
