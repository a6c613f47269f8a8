package app

import (
	"context"
	"time"

	"github.com/aipfleet/aipfleet/pkg/client"
)

// Client makes a client of the chosen target's aipd.
func (a *App) Client() (*client.Client, error) {
	t, err := a.Target()
	if err != nil {
		return nil, err
	}
	if t.Aipd.URL == "" {
		return nil, Usagef("context.aipd", "context %s names no aipd", t.Name).
			Advise("aipctl context set %s --aipd-url URL --token-file FILE", t.Name)
	}
	token, err := a.Token(t)
	if err != nil {
		return nil, err
	}
	return client.New(t.Aipd.URL, token)
}

// Pause waits for d or for the end of ctx, whichever is first.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
