package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
)

// run executes one command line and returns the exit code.
func run(ctx context.Context, args []string, env func(string) (string, bool), stdio app.IO) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	stdio.LookupEnv = env
	a := app.New(stdio, time.Now, nil)
	a.Open, a.Verify = opener(a), verifier(a)
	return a.Run(ctx, root(a), args)
}

// terminal describes the streams of the process.
func terminal() app.IO {
	out := int(os.Stdout.Fd())
	width, _, err := term.GetSize(out)
	if err != nil {
		width = 0
	}
	return app.IO{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Width: width,
		InTTY: term.IsTerminal(int(os.Stdin.Fd())), OutTTY: term.IsTerminal(out), ErrTTY: term.IsTerminal(int(os.Stderr.Fd())),
	}
}
