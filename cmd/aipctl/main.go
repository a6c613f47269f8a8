// Command aipctl operates a fleet of connectors: it admits, binds, drains, looks
// and explains.
package main

import (
	"context"
	"os"
)

func main() { os.Exit(run(context.Background(), os.Args[1:], os.LookupEnv, terminal())) }
