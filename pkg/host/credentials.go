package host

import (
	"fmt"
	"slices"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Credentials are the revisions of the account's credential that may be used. A
// route pins one when it is decided; a host takes it while it is the current one or
// an accepted earlier one, so that a credential rolls without stranding pinned work.
type Credentials struct {
	Current  string
	Previous []string // accepted while routes that pinned them end
	Revoked  []string // never used, whatever else is said of them
	// Refs says where the credential of a revision is, for revisions whose reference
	// is not the host's own (Config.SecretRef).
	Refs map[string]string
}

// maxRevisions bounds each list: what a host must accept at once is small.
const maxRevisions = 64

// Validate refuses a policy that contradicts itself.
func (c Credentials) Validate() error {
	all := append([]string{c.Current}, c.Previous...)
	for i, r := range append(all, c.Revoked...) {
		if len(r) > fleet.MaxCredentialRef || r == "" && i > 0 {
			return badCredentials("a revision is empty or longer than 256 bytes")
		}
	}
	if len(c.Previous) > maxRevisions || len(c.Revoked) > 16*maxRevisions {
		return badCredentials(fmt.Sprintf("more than %d revisions are accepted, or %d revoked", maxRevisions, 16*maxRevisions))
	}
	if c.Current != "" && slices.Contains(c.Previous, c.Current) {
		return badCredentials("a revision is both current and previous")
	}
	if c.Current != "" && slices.Contains(c.Revoked, c.Current) {
		return badCredentials("the current revision is revoked")
	}
	for r := range c.Refs {
		if !slices.Contains(all, r) && !slices.Contains(c.Revoked, r) {
			return badCredentials("a reference is given for a revision that is not listed")
		}
	}
	return nil
}

func badCredentials(why string) error {
	return fleet.Invalidf("host.credentials", "the credential revisions are not valid").Because("%s", why)
}

// judge says why a pinned revision is not accepted, or "". A route that pins none
// takes the current one.
func (c Credentials) judge(pinned string) string {
	switch {
	case slices.Contains(c.Revoked, pinned):
		return "the pinned revision is revoked"
	case pinned == "" || pinned == c.Current || slices.Contains(c.Previous, pinned):
		return ""
	}
	return "the pinned revision is neither the current nor an accepted earlier one"
}

// use is the revision that a route's call is made with, and where its credential is.
func (c Credentials) use(pinned, ownRef string) (revision, ref string) {
	if revision = pinned; revision == "" {
		revision = c.Current
	}
	if ref, ok := c.Refs[revision]; ok {
		return revision, ref
	}
	return revision, ownRef
}

// SetCredentials changes the policy for every call from now on. Calls under way go on
// with the credential that they have.
func (h *Host) SetCredentials(c Credentials) error {
	if err := c.Validate(); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.credentials = c
	return nil
}

// Credentials is the policy now.
func (h *Host) Credentials() Credentials {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.credentials
}
