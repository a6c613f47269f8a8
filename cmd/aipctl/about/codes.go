package about

import (
	"slices"

	"github.com/aipfleet/aipfleet/cmd/aipctl/noun"
)

// areas says what a family of codes is about, for codes without a text of their own.
func areas() []Explanation {
	return append(families(), recordAreas()...)
}

// recordAreas are the codes of records that are not there: replica.not_found.
func recordAreas() []Explanation {
	var all []Explanation
	for _, n := range noun.All() {
		if !slices.Contains([]string{"route", "binding", "admission"}, n.Single) { // these are families too
			all = append(all, Explanation{Word: n.Single, What: "area", Meaning: "Records of that noun: " + n.About})
		}
	}
	return append(all, Explanation{Word: "zone", What: "area", Meaning: "Replicas by where they stand."})
}

func families() []Explanation {
	area := func(word, meaning string) Explanation { return Explanation{Word: word, What: "area", Meaning: meaning} }
	return []Explanation{
		area("action", "aipd's record of an action: what was asked, and where it stands."),
		area("admit", "Admitting a release package: the command."),
		area("aipd", "The central daemons."),
		area("aiphost", "The connector host as a program."),
		area("admission", "Judging a release package before it may be routed to."),
		area("aipctl", "aipctl itself."),
		area("archive", "Moving settled routes away; their action ids stay taken."),
		area("artifact", "The bytes that a release runs; their digest is checked before start."),
		area("attest", "Writing a statement about a release package."),
		area("auth", "Who the caller of aipd is."),
		area("binding", "A tenant's capability and the instance it may use."),
		area("catalog", "Which capabilities a tenant may see."),
		area("client", "Talking to aipd."),
		area("confirm", "A change that asks before it is made."),
		area("conform", "Running a packed connector against its scenarios: aipctl release conform."),
		area("connector", "The connector process behind a host."),
		area("context", "The named target that a command works on."),
		area("dash", "The dashboard."),
		area("demo", "The demonstration fleet."),
		area("dev", "The private fleet on this machine."),
		area("dispatch", "Sending an action to its pinned host."),
		area("drain", "Taking replicas out of service."),
		area("envelope", "Signed messages between aipd, hosts and operators."),
		area("expire", "Releasing reservations whose lease or deadline is over."),
		area("explain", "Words that aipctl can explain."),
		area("gateway", "aipd's HTTP surface and its configuration."),
		area("host", "The ordered checks of a connector host; the last part names the check."),
		area("http", "The form of an HTTP request to aipd."),
		area("id", "The form of an identity."),
		area("input", "A file or stream given to aipctl."),
		area("journal", "A host's own memory of what it executed."),
		area("lease", "How long a replica may be trusted."),
		area("lifecycle", "Register, heartbeat, drain and offline between hosts and aipd lifecycle."),
		area("list", "Reading lists of records."),
		area("oci", "Packages in OCI layouts and registries."),
		area("output", "Writing the result."),
		area("package", "The files of a release package."),
		area("peer", "Reaching a peer over HTTP."),
		area("pgcluster", "The private PostgreSQL of a development fleet."),
		area("policy", "aipd's policy about who may call what."),
		area("protocol", "The documents that travel in messages; the last part names the document."),
		area("publish", "Changing the catalog: one change set, one revision."),
		area("reconcile", "Attempts without a definite answer."),
		area("registry", "The database behind the registry, and its roles."),
		area("release", "Packing, signing and checking release packages."),
		area("resolve", "Choosing and reserving a route."),
		area("reverify", "Deciding stored admissions again: aipctl trust reverify."),
		area("route", "The one durable target of an action."),
		area("schedule", "Waiting for a place among the tenants."),
		area("secret", "Secrets that a host hands to its connector."),
		area("settle", "Ending the reservation of an attempt."),
		area("sign", "Signing with a publisher's key."),
		area("topology", "Region, zone and capacity class."),
		area("trust", "Whose signatures admit a release."),
		area("usage", "The command line."),
		area("wait", "Waiting for a condition."),
	}
}

// codes says what the codes mean that an operator meets most.
func codes() []Explanation {
	code := func(word, meaning, next string) Explanation {
		return Explanation{Word: word, What: "code", Meaning: meaning, Next: next}
	}
	return []Explanation{
		code("action.archived", "The action ended, and its result is not kept any more; neither its id nor its key runs again.", "aipctl get archived ACTION; for new work use another id and key"),
		code("action.conflict", "The action id or idempotency key is taken by other content.", "submit the new content under a new id"),
		code("action.unknown", "There is no such action, or it belongs to another tenant.", "aipctl action list"),
		code("action.not_final", "The action has no definite result yet.", "aipctl action watch ACTION"),
		code("catalog.capability", "The tenant sees no such capability: it does not exist, is not bound, or is switched off.", "aipctl get bindings --tenant T"),
		code("catalog.stale_cursor", "Somebody published between two pages.", "list again from the beginning"),
		code("client.unreachable", "aipd could not be reached; nothing was sent.", "aipctl doctor"),
		code("client.no_answer", "The request was sent and no answer came.", "repeat with the same action id: it never runs twice"),
		code("confirm.needed", "The change asks for confirmation, and nobody could be asked.", "repeat with --yes; for a dangerous one with --yes --confirm NAME --reason TEXT"),
		code("confirm.refused", "The answer to the confirmation was no.", "nothing was changed"),
		code("context.none", "No target is chosen.", "aipctl context set NAME …, then aipctl context use NAME"),
		code("dispatch.no_answer", "The host was sent the action and did not answer: it may have happened.", "aipctl reconcile show ACTION"),
		code("dispatch.not_ended", "A host does not know the end of an action that central gave up; it keeps what it has.", "aipctl reconcile show ACTION"),
		code("drain.max_unavailable", "By --max-unavailable no more replicas of the instance may be out of routing.", "undrain or replace others of the instance, then repeat the command"),
		code("drain.partial", "Of many replicas some are not drained: one failed, or the rest were not begun.", "look at each replica's result, then repeat the command"),
		code("drain.timeout", "Work is still pinned to a replica at the deadline; the drain goes on.", "aipctl get routes --reserved --replica ID"),
		code("fleet_file", "The fleet file does not have the grammar of plan and apply.", "aipctl get instances -o yaml shows the fields"),
		code("lease.held", "The replica's lease is live and held by another journal.", "wait for the lease to end, or stop the other process"),
		code("lease.journal_changed", "The host came back with another journal: what it did before cannot be asked for any more.", "put the old journal back, or aipctl accept journal REPLICA --reason TEXT"),
		code("lease.journal_not_offered", "No host of the replica came with the journal that is to be accepted.", "aipctl describe replica REPLICA"),
		code("lease.not_drained", "The replica works, or may get work; only a drained or offline one is retired.", "aipctl drain replica REPLICA"),
		code("lease.retired", "The replica's identity was ended for ever.", "declare another replica, with an id and a key of its own"),
		code("lease.peer", "The signer is not the replica's declared peer.", "compare the host's DID with aipctl describe replica ID"),
		code("publish.revision_moved", "Somebody published after the plan was made.", "plan again, look, apply again"),
		code("publish.stale_revision", "A record differs and its revision did not grow.", "leave the revision out: apply then counts it up"),
		code("publish.incompatible", "A later version offers the same capability under a contract that breaks callers.", "give the capability another id"),
		code("publish.not_qualified", "The version's evidence was not evaluated and passed.", "aipctl admit release PKG"),
		code("reconcile.decided", "The attempt is decided already; the first decision stands.", "aipctl reconcile show ACTION"),
		code("reconcile.not_retired", "Deciding for a whole replica is for retired ones: another may still answer for itself.", "aipctl reconcile resolve ACTION, or aipctl retire replica REPLICA"),
		code("reconcile.retired", "The pinned host is retired: nobody is there to be asked.", "aipctl reconcile resolve ACTION"),
		code("reconcile.no_answer", "The pinned host was not heard of in time.", "aipctl reconcile show ACTION"),
		code("registry.role", "The database URL logs in as another role than the command needs.", "use the URL of the named role"),
		code("registry.password", "The password in a database URL is not the role's. Roles belong to the whole PostgreSQL server: a rotation for one of its databases changes them for all.", "use the URL file that was written last, or aipctl registry init --urls DIR --rotate-passwords"),
		code("registry.shared_roles", "The server has the roles already, of another database, and none of the passwords given is theirs.", "aipctl registry init --urls DIR --passwords-from DIR-OF-THE-OTHER-DATABASE"),
		code("registry.init_busy", "Another init of the same database does not end.", "try again; look for sessions named aipctl registry"),
		code("registry.not_migrated", "The database has no schema, or an older one.", "aipctl registry init for an empty database, aipctl registry migrate for an older one"),
		code("registry.schema_newer", "The database was migrated by a newer program, and its schema does not serve this one.", "upgrade this program"),
		code("registry.privileges", "A role may do more or less than it must.", "aipctl registry roles"),
		code("registry.audit", "An invariant does not hold over the live data.", "aipctl registry audit -o json"),
		code("resolve.binding_unavailable", "No enabled chain leads from the tenant's capability to a version.", "aipctl route explain --tenant T --capability C"),
		code("resolve.replica_unavailable", "No replica may serve now; the counts say why.", "aipctl route explain --tenant T --capability C"),
		code("resolve.pinned_unavailable", "The one replica of the route cannot be reserved now; a retry never moves to another.", "aipctl route inspect ACTION"),
		code("resolve.route_lost", "The one replica of the route is retired and nothing of the action is in question: it can never run.", "submit it again under another action id"),
		code("resolve.capacity_exceeded", "A hard limit is reached.", "wait, or aipctl get quotas"),
		code("resolve.contended", "Others hold the rows at this moment.", "try again"),
		code("route.action", "No route of that action is visible here.", "aipctl action status ACTION"),
		code("route.archived", "The action's route was archived; its id stays taken.", "aipctl get archived ACTION; for new work use a new action id"),
		code("route.conflict", "The action id is routed for another tenant or capability.", "use a new action id"),
		code("settle.fence_lost", "The attempt was superseded by a newer one.", "aipctl route inspect ACTION"),
		code("wait.timeout", "The condition did not hold in time; nothing failed.", "wait longer with --timeout"),
	}
}
