// Package ticketdesk answers: what are the written parts of the example, for
// programs that set it up?
//
// It holds the release description and the fleet file as they stand beside it. What
// the product does is in package desk, its MCP server in the program below server.
package ticketdesk

import _ "embed"

//go:embed fleet.yaml
var fleetFile string

//go:embed release/release.yaml
var releaseFile string

//go:embed policy.yaml
var policyFile string

//go:embed conformance.yaml
var conformanceFile string

// Conformance is conformance.yaml, the calls that release conform makes.
func Conformance() []byte { return []byte(conformanceFile) }

// Policy is policy.yaml, the trust policy for the release. Its keys are placeholders.
func Policy() []byte { return []byte(policyFile) }

// Fleet is fleet.yaml. Its replicas' identities are placeholders.
func Fleet() []byte { return []byte(fleetFile) }

// Release is release/release.yaml.
func Release() []byte { return []byte(releaseFile) }
