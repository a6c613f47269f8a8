package tui

import (
	"context"
	"time"

	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/routing"
)

// Explainer is the part of [registry.Router] that the dashboard may use: it says what
// a resolve would decide, and reserves nothing.
type Explainer interface {
	Explain(ctx context.Context, request registry.RouteRequest) (routing.Explanation, error)
}

// Config is what a dashboard is handed.
type Config struct {
	Reader     registry.Reader         // required
	Router     Explainer               // nil: why is refused
	Begin      Begin                   // required; see Bounded
	Now        func() time.Time        // required
	Copy       func(text string) error // to the clipboard; nil: what is copied is only shown
	Interval   time.Duration           // between readings, at least MinInterval; 0 means DefaultInterval
	MaxRows    int                     // read of one table; 0 means DefaultMaxRows
	Context    string                  // name of the target
	Production bool                    // the target is marked production
	Theme      Theme                   // required
	Screen     Screen                  // to start on; 0 means Overview
}

// Bounds of reading.
const (
	DefaultInterval = time.Second
	MinInterval     = 200 * time.Millisecond
	DefaultMaxRows  = 10_000
)

func (c Config) withDefaults() Config {
	if c.Interval == 0 {
		c.Interval = DefaultInterval
	}
	c.Interval = max(c.Interval, MinInterval)
	if c.MaxRows == 0 {
		c.MaxRows = DefaultMaxRows
	}
	if c.Screen == 0 {
		c.Screen = Overview
	}
	return c
}

// Screen is a screen by the number of its key.
type Screen int

// The screens of this version.
const (
	Overview Screen = 1
	Replicas Screen = 2
	Routes   Screen = 4
)

// Screens lists the screens in the order of their keys.
func Screens() []Screen { return []Screen{Overview, Replicas, Routes} }

// String is the screen's name, as --screen and the command line take it.
func (s Screen) String() string {
	switch s {
	case Overview:
		return "overview"
	case Replicas:
		return "replicas"
	case Routes:
		return "routes"
	}
	return ""
}

// FindScreen returns a screen by its name.
func FindScreen(name string) (Screen, bool) {
	for _, s := range Screens() {
		if s.String() == name {
			return s, true
		}
	}
	return 0, false
}

// elsewhere says what a number stands for that this version has no screen for, and
// which command answers meanwhile.
func elsewhere(digit string) string {
	switch digit {
	case "3":
		return "instances: not in this version; aipctl get instances"
	case "5":
		return "actions: not in this version; aipctl get actions"
	case "6":
		return "events: not in this version; aipctl events --follow"
	case "7":
		return "tenants and capabilities: not in this version; aipctl get tenants"
	case "8":
		return "versions and admissions: not in this version; aipctl get versions"
	case "9":
		return "rollouts: not in this version"
	}
	return "doctor: not in this version; aipctl doctor"
}
