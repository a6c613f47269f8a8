//go:build !crashpoints

package crashpoint

import "time"

// Reach marks a point. Here nothing happens at it.
func Reach(Name) {}

// Clock is the clock that it is given.
func Clock(now func() time.Time) func() time.Time { return now }

// Disk is what a durable write meets. Here it is nothing.
func Disk() func(write func() error) error { return nil }
