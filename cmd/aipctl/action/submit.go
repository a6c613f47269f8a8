package action

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

const maxInputBytes = 4 << 20

// submitOptions is one submission.
type submitOptions struct {
	app        *app.App
	capability string
	id         string
	input      string
	inputFile  string
	key        string
	timeout    time.Duration
	wait       time.Duration
}

func submitCommand(a *app.App) *cobra.Command {
	o := &submitOptions{app: a}
	cmd := &cobra.Command{
		Use: "submit CAPABILITY", Short: "Submit an action to aipd",
		Long:    "Submits an action. The same --id with the same content again is a repeat: it never runs twice,\nand runs again only when it is known not to have started.",
		Example: "  aipctl action submit ticketdesk:open_ticket --input '{\"title\":\"Broken lamp\"}' --wait 30s",
		Args:    app.ExactArgs(1, "a capability id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.capability = args[0]
			return o.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.id, "id", "", "action `id`; made when absent")
	f.StringVar(&o.input, "input", "", "input as JSON")
	f.StringVarP(&o.inputFile, "input-file", "f", "", "`file` with the input as JSON, - for stdin")
	f.StringVar(&o.key, "idempotency-key", "", "one action per key, tenant and capability")
	f.DurationVar(&o.timeout, "timeout", 0, "deadline of the action itself")
	f.DurationVar(&o.wait, "wait", 0, "wait at most this long for it to stop running")
	return cmd
}

func (o *submitOptions) run(ctx context.Context) error {
	request, err := o.request()
	if err != nil {
		return err
	}
	c, err := o.app.Client()
	if err != nil {
		return err
	}
	o.app.Progressf("submitting %s", request.ID)
	view, err := c.Submit(ctx, request, min(o.wait, longestAsk))
	if err != nil {
		return err
	}
	if o.wait > 0 && view.State.Running() {
		if view, err = follow(ctx, o.app, view.ID, o.wait); err != nil {
			return err
		}
	}
	if err := show(o.app, view); err != nil {
		return err
	}
	return end(view, o.wait > 0)
}

func (o *submitOptions) request() (r action.Request, err error) {
	if r.Capability, err = fleet.ParseCapabilityID(o.capability); err != nil {
		return r, err
	}
	r.ID = fleet.NewActionID(o.app.Now())
	if o.id != "" {
		if r.ID, err = fleet.ParseActionID(o.id); err != nil {
			return r, err
		}
	}
	r.IdempotencyKey, r.TimeoutMS = o.key, uint64(max(0, o.timeout.Milliseconds()))
	r.Input, err = o.readInput()
	return r, err
}

func (o *submitOptions) readInput() (json.RawMessage, error) {
	data := []byte(o.input)
	if o.inputFile != "" {
		if o.input != "" {
			return nil, app.Usagef("usage.input", "give --input or --input-file, not both")
		}
		var err error
		if data, err = o.app.ReadInput(o.inputFile, maxInputBytes); err != nil {
			return nil, err
		}
	}
	data = bytes.TrimSpace(data)
	if len(data) == 0 {
		data = []byte("{}")
	}
	if !json.Valid(data) {
		return nil, app.Usagef("usage.input", "the input is not JSON").Advise("--input '{\"name\":\"value\"}'")
	}
	return data, nil
}
