// Package crashpoint answers: at which moments may a test end this process, stop it,
// or turn its clock?
//
// In ordinary builds at none: every function here does nothing and is compiled away.
// Built with the tag crashpoints, a process looks at the file that PointFile
// names whenever it passes a point; a test writes the point's name and what is to
// happen there. So a fault strikes a real process exactly between two durable steps.
//
// The package guarantees nothing about the fleet. It is how G25, G26, G39 and G41
// are tried on real processes.
package crashpoint

// Name of a moment in the life of an action or a lease.
type Name string

// The points, in the order in which an action passes them.
const (
	AfterResolve    Name = "after_resolve"    // aipd: the route is reserved, nothing is noted or sent
	IntentPersisted Name = "intent_persisted" // host: what will be called is on the disk
	CallStarted     Name = "call_started"     // host: so is that the call starts; the provider was not called
	ProviderEffect  Name = "provider_effect"  // host: the provider answered, nothing of it is on the disk
	ResultPersisted Name = "result_persisted" // host: the outcome is on the disk
	BeforeAck       Name = "before_ack"       // host: the answer is about to be written
	AfterAck        Name = "after_ack"        // host: the answer was written
	AfterSend       Name = "after_send"       // aipd: the answer came, nothing of it is stored
	BeforeSettle    Name = "before_settle"    // aipd: the reservation is about to be settled
	AfterSettle     Name = "after_settle"     // aipd: it was settled, and that is not noted yet
	BeforeLease     Name = "before_lease"     // lifecycle: a signed request is proved, the registry not asked
	AfterLease      Name = "after_lease"      // lifecycle: the registry granted, nothing was answered
)

// Variables of the environment that name files, for builds with the tag. A file is
// read whenever it matters, so that a test may write it while the process runs.
const (
	PointFile = "AIP_CRASHPOINT_FILE" // "NAME kill" or "NAME stop"; renamed to .hit when it strikes
	ClockFile = "AIP_CLOCK_FILE"      // a duration that is added to the clock
	DiskFile  = "AIP_DISK_FILE"       // "full" fails a write before it, "sync" after it; renamed to .hit
)

// Names lists every point.
func Names() []Name {
	return []Name{
		AfterResolve, IntentPersisted, CallStarted, ProviderEffect, ResultPersisted, BeforeAck, AfterAck,
		AfterSend, BeforeSettle, AfterSettle, BeforeLease, AfterLease,
	}
}
