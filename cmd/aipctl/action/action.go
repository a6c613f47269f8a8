// Package action is aipctl action: submitting actions to aipd and following them.
//
// It answers "what became of this action?". An uncertain one ends with exit code 7,
// one that is still running when waiting ends with 6. The action id is made here
// before anything is sent, so that the same command can be repeated safely (G27).
package action

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Command makes aipctl action.
func Command(a *app.App) *cobra.Command {
	return app.GroupCommand("action", "Submit actions and follow them", app.GroupActions,
		submitCommand(a), statusCommand(a), resultCommand(a), cancelCommand(a), listCommand(a), watchCommand(a))
}

func statusCommand(a *app.App) *cobra.Command {
	var wait time.Duration
	cmd := &cobra.Command{
		Use: "status ACTION", Short: "Show where an action stands; exit 7 when it is uncertain",
		Args: app.ExactArgs(1, "an action id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := fleet.ParseActionID(args[0])
			if err != nil {
				return err
			}
			view, err := follow(cmd.Context(), a, id, wait)
			if err != nil {
				return err
			}
			if err := show(a, view); err != nil {
				return err
			}
			return end(view, wait > 0)
		},
	}
	cmd.Flags().DurationVar(&wait, "wait", 0, "wait at most this long for it to stop running")
	return cmd
}

func resultCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "result ACTION", Short: "Print the stored result document of a finished action",
		Long: "Prints the stored result. Without -o these are the stored bytes, the same at every call;\nwith -o json they are the item of the usual document.",
		Args: app.ExactArgs(1, "an action id"),
		RunE: func(cmd *cobra.Command, args []string) error { return result(cmd.Context(), a, args[0]) },
	}
}

func cancelCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "cancel ACTION", Short: "Ask to stop an action",
		Long: "Asks to stop an action. One that has begun is cancelled only if its host can prove that nothing happened.",
		Args: app.ExactArgs(1, "an action id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := fleet.ParseActionID(args[0])
			if err != nil {
				return err
			}
			c, err := a.Client()
			if err != nil {
				return err
			}
			view, err := c.Cancel(cmd.Context(), id, a.Reason)
			if err != nil {
				return err
			}
			if err := show(a, view); err != nil {
				return err
			}
			return end(view, false)
		},
	}
}

func watchCommand(a *app.App) *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "watch ACTION", Short: "Follow an action until it stops running",
		Args: app.ExactArgs(1, "an action id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := fleet.ParseActionID(args[0])
			if err != nil {
				return err
			}
			view, err := follow(cmd.Context(), a, id, timeout)
			if err != nil {
				return err
			}
			if err := show(a, view); err != nil {
				return err
			}
			return end(view, true)
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Minute, "stop watching after this long")
	return cmd
}

// longestAsk is how long one request waits at the server.
const longestAsk = 15 * time.Second

// follow asks until the action is not running any more or the time is over, and
// tells each change of state on stderr.
func follow(ctx context.Context, a *app.App, id fleet.ActionID, wait time.Duration) (action.View, error) {
	c, err := a.Client()
	if err != nil {
		return action.View{}, err
	}
	until, last := a.Now().Add(wait), action.State("")
	for {
		left := until.Sub(a.Now())
		view, err := c.Get(ctx, id, max(0, min(left, longestAsk)))
		if err != nil {
			return view, err
		}
		if wait > 0 && view.State != last {
			a.Progressf("%s %s", view.ID, app.Status(string(view.State)))
			last = view.State
		}
		if !view.State.Running() || until.Sub(a.Now()) <= 0 {
			return view, nil
		}
		if err := app.Pause(ctx, 50*time.Millisecond); err != nil {
			return view, err
		}
	}
}

// end gives the exit code of a state. waited says whether the caller asked for the
// end of the action and not only for its state.
func end(v action.View, waited bool) error {
	switch {
	case v.State == action.Uncertain:
		return app.Exit(app.ExitUncertain)
	case !waited:
		return nil
	case v.State.Running():
		return app.Exit(app.ExitTimeout)
	case v.State == action.Retryable:
		return app.Exit(fleet.Unavailable.Info().ExitCode)
	case v.State == action.Failed, v.State == action.Cancelled:
		return app.Exit(1)
	}
	return nil
}

func result(ctx context.Context, a *app.App, arg string) error {
	id, err := fleet.ParseActionID(arg)
	if err != nil {
		return err
	}
	c, err := a.Client()
	if err != nil {
		return err
	}
	data, err := c.Result(ctx, id)
	if err != nil {
		return err
	}
	return printResult(a, id, data)
}
