// Package about is what aipctl can say without any fleet: explain, version,
// completion and man.
//
// It answers "what does this code or word mean?". It opens nothing and sends nothing.
package about

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/pkg/envelope"
)

// Commands makes the commands of the package.
func Commands(a *app.App) []*cobra.Command {
	return []*cobra.Command{explainCommand(a), versionCommand(a), completionCommand(a), manCommand(a)}
}

// Version is what aipctl version prints.
type Version struct {
	Version    string `json:"version"`
	Commit     string `json:"commit,omitempty"`
	CommitTime string `json:"commit_time,omitempty"`
	Modified   bool   `json:"modified,omitempty"`
	Go         string `json:"go"`
	Platform   string `json:"platform"`
	AIP        string `json:"aip_version"`
}

func versionCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Show the version of this program", GroupID: app.GroupAbout, Args: app.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := ReadVersion()
			return a.Print(app.View{Kind: "Version", Item: v, Name: func(any) string { return v.Version }, Text: func() app.Page {
				return app.Page{{Fields: []app.Field{
					{Label: "aipctl", Value: v.Version}, {Label: "commit", Value: v.Commit}, {Label: "built with", Value: v.Go + " for " + v.Platform}, {Label: "speaks", Value: "AIP " + v.AIP},
				}}}
			}})
		},
	}
}

// ReadVersion reads what the linker recorded.
func ReadVersion() Version {
	v := Version{Version: "devel", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, AIP: envelope.Version}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" && info.Main.Version != "(devel)" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.time":
			v.CommitTime = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

// script is a generated text as -o json shows it.
type script struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// printScript writes a generated text as it is, or as the item of a document.
func printScript(a *app.App, kind string, s script) error {
	if a.Machine() {
		return a.Print(app.View{Kind: kind, Item: s})
	}
	return a.Raw(bytes.NewReader([]byte(s.Text)))
}

func completionCommand(a *app.App) *cobra.Command {
	shells := map[string]func(*cobra.Command, io.Writer) error{
		"bash":       func(c *cobra.Command, w io.Writer) error { return c.GenBashCompletionV2(w, true) },
		"zsh":        func(c *cobra.Command, w io.Writer) error { return c.GenZshCompletion(w) },
		"fish":       func(c *cobra.Command, w io.Writer) error { return c.GenFishCompletion(w, true) },
		"powershell": func(c *cobra.Command, w io.Writer) error { return c.GenPowerShellCompletionWithDesc(w) },
	}
	names := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use: "completion bash|zsh|fish|powershell", Short: "Print a completion script for a shell", GroupID: app.GroupAbout,
		Args: app.ExactArgs(1, "the name of a shell"), ValidArgs: names,
		Example: "  source <(aipctl completion bash)",
		RunE: func(cmd *cobra.Command, args []string) error {
			generate, ok := shells[args[0]]
			if !ok {
				return app.Unknown("usage.shell", "shell", args[0], names)
			}
			var b bytes.Buffer
			if err := generate(cmd.Root(), &b); err != nil {
				return fmt.Errorf("completion: %w", err)
			}
			return printScript(a, "Completion", script{args[0], b.String()})
		},
	}
}
