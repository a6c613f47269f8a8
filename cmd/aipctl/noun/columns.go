package noun

func types() Noun {
	return Noun{
		Plural: "types", Single: "type", Kind: "Types",
		About: "An adapter family: which product boundary it is for and who owns it. A disabled type admits, lists and routes nothing.",
		Columns: []Column{
			col("id", "id"), col("name", "name"), col("owner", "owner"), form("state", "enabled", Switch),
		},
	}
}

func versions() Noun {
	return Noun{
		Plural: "versions", Single: "version", Kind: "Versions", Filters: "state",
		About: "One admitted artifact and manifest. Only its status ever changes: admitted, active, deprecated, quarantined, revoked.",
		Columns: []Column{
			col("id", "id"), col("type", "type_id"), col("version", "version"), form("status", "status", Status),
			col("sequence", "release_sequence"), form("capabilities", "manifest.capabilities", Count),
			form("admitted", "admitted_at", Since),
			wide("artifact", "artifact_digest"), wide("manifest", "manifest_digest"),
			wide("trust", "attestation.trust_revision"), wide("qualified", "attestation.qualified"),
		},
	}
}

func instances() Noun {
	return Noun{
		Plural: "instances", Single: "instance", Kind: "Instances", Filters: "tenant version",
		About: "One account or installation that a tenant owns. Its tenant and type never change; its configuration revision grows on any change.",
		Columns: []Column{
			col("id", "id"), col("tenant", "tenant_id"), col("type", "type_id"), form("state", "enabled", Switch),
			col("serving", "serving"), col("config", "config_revision"), wide("secret-ref", "secret_provider_ref"),
		},
	}
}

func replicas() Noun {
	return Noun{
		Plural: "replicas", Single: "replica", Kind: "Replicas", Filters: "tenant instance version state",
		About: "A process identity made beforehand, and the state of its lease. Work pinned to it never moves to another.",
		Columns: []Column{
			col("id", "id"), col("tenant", "tenant_id"), col("instance", "instance_id"),
			form("status", "live.status", Status), form("intent", "live.intent", Text),
			form("lease", "live.lease_expires_at", Until), col("active", "live.active_assignments"), col("capacity", "capacity"),
			col("zone", "topology.zone"), form("circuit", "live.circuit.state", Status),
			wide("version", "version_id"), wide("region", "topology.region"), wide("class", "topology.capacity_class"),
			wide("healthy", "live.healthy"), wide("epoch", "live.lease_epoch"), wideForm("beat", "live.last_beat_at", Since),
			wide("endpoint", "endpoint"), wide("peer", "peer.did"), wide("journal", "live.journal_id"), wide("offered-journal", "live.offered_journal_id"),
		},
	}
}

func bindings() Noun {
	return Noun{
		Plural: "bindings", Single: "binding", Kind: "Bindings", Filters: "tenant instance",
		About: "Lets one capability of a tenant use one of the tenant's instances, with a priority, credential revision and quota.",
		Columns: []Column{
			col("tenant", "tenant_id"), col("capability", "capability_id"), col("instance", "instance_id"),
			col("priority", "priority"), form("state", "enabled", Switch), col("policy", "policy_revision"),
			wide("credential", "credential_revision_ref"), wide("quota", "quota_policy_ref"),
		},
	}
}

func quotas() Noun {
	return Noun{
		Plural: "quotas", Single: "quota", Kind: "Quotas",
		About: "Hard limits of concurrent reservations by scope, and when a replica's circuit opens. A limit that is absent is off.",
		Columns: []Column{
			col("ref", "ref"), col("revision", "revision"), form("state", "enabled", Switch),
			col("global", "global"), col("tenant", "tenant"), col("type", "connector_type"), col("instance", "instance"),
			col("binding", "binding"), col("retry", "tenant_retry"),
			wide("threshold", "circuit.failure_threshold"), wide("open-ms", "circuit.open_ms"), wide("probes", "circuit.half_open_probes"),
		},
	}
}

func capabilities() Noun {
	return Noun{
		Plural: "capabilities", Single: "capability", Kind: "Capabilities", Filters: "tenant version",
		About: "One operation that an admitted version offers, with its schemas and contract.",
		Columns: []Column{
			col("id", "definition.id"), col("name", "definition.name"), col("version", "version_id"),
			col("effects", "definition.contract.side_effects"), col("idempotency", "definition.contract.idempotency"),
			wide("risk", "definition.risk"), wide("type", "type_id"), wide("contract", "contract_digest"),
		},
	}
}

func tenants() Noun {
	return Noun{
		Plural: "tenants", Single: "tenant", Kind: "Tenants", Filters: "tenant",
		About: "Who owns instances and bindings. Nothing of one tenant can be reached with another's identity.",
		Columns: []Column{
			col("tenant", "tenant_id"), col("instances", "instances"), col("replicas", "replicas"),
			col("bindings", "bindings"), col("reserved", "reserved"),
		},
	}
}

func routes() Noun {
	return Noun{
		Plural: "routes", Single: "route", Kind: "Routes", Filters: "tenant instance version replica time",
		About: "The one durable target of an action, written before anything leaves the platform, and every attempt made on it.",
		Columns: []Column{
			col("action", "route.action_id"), col("tenant", "route.tenant_id"), col("capability", "route.capability_id"),
			col("replica", "route.replica_id"), form("state", "state", Status), col("fence", "fence"),
			form("assigned", "route.assigned_at", Since),
			wide("instance", "route.instance_id"), wide("version", "route.version_id"), wide("zone", "route.topology.zone"),
			wide("revision", "route.catalog_revision"), wide("credential", "route.credential_revision_ref"), wideForm("attempts", "attempts", Count),
		},
	}
}

func admissions() Noun {
	return Noun{
		Plural: "admissions", Single: "admission", Kind: "Admissions", Filters: "version state",
		About: "The journal entry of one admitted release: its package, evidence and the trust revision it was judged under.",
		Columns: []Column{
			col("version", "version_id"), form("state", "state", Status), col("revision", "catalog_revision"),
			col("trust", "trust_revision"), col("actor", "actor"), col("reason", "reason"), form("applied", "applied_at", Since),
			wide("package", "package_digest"), wide("evaluator", "evaluator_version"), wide("revocations", "revocation_list"),
		},
	}
}

func reconciliations() Noun {
	return Noun{
		Plural: "reconciliations", Single: "reconciliation", Kind: "Reconciliations", Filters: "tenant instance replica state time",
		About: "An attempt that was released without a definite answer, and what the pinned host said when asked again.",
		Columns: []Column{
			col("action", "action_id"), col("fence", "fence"), col("tenant", "tenant_id"), col("capability", "capability_id"),
			col("replica", "replica_id"), form("state", "state", Status), col("cause", "cause"),
			form("opened", "opened_at", Since), col("probes", "probe_count"), form("next", "next_probe_at", Until),
			wide("instance", "instance_id"), wide("resolution", "resolution"), wide("by", "resolved_by"), wideForm("resolved", "resolved_at", Since),
		},
	}
}

func trust() Noun {
	return Noun{
		Plural: "trust", Single: "trust-revision", Kind: "TrustRevisions",
		About: "One immutable revision of the trust policy: whose signatures admit a release.",
		Columns: []Column{
			col("number", "number"), col("digest", "digest"), col("actor", "actor"), col("reason", "reason"), form("applied", "applied_at", Since),
		},
	}
}

func revocations() Noun {
	return Noun{
		Plural: "revocations", Single: "revocation", Kind: "Revocations",
		About: "One signed, numbered list of what is not trusted any more. Every list is complete; the newest one counts.",
		Columns: []Column{
			col("number", "number"), form("issued", "issued_at", Since), form("entries", "entries", Count), col("actor", "actor"),
			col("reason", "reason"), form("applied", "applied_at", Since), wide("digest", "digest"),
		},
	}
}

func events() Noun {
	return Noun{
		Plural: "events", Single: "event", Kind: "Events", Filters: "time",
		About: "One entry of the registry's journal: who changed what, why, and at which revision.",
		Columns: []Column{
			col("sequence", "sequence"), form("at", "at", Since), col("revision", "revision"), col("kind", "kind"),
			col("subject", "subject"), col("actor", "actor"), col("reason", "reason"), wide("detail", "detail"),
		},
	}
}

func archived() Noun {
	return Noun{
		Plural: "archived", Single: "archived-action", Kind: "ArchivedActions", Filters: "tenant state time",
		About: "What stays of an action whose content was given up after its retention, or whose route was moved to the archive. Its id is taken for ever.",
		Columns: []Column{
			col("action", "action_id"), col("tenant", "tenant_id"), col("capability", "capability_id"),
			form("state", "content.state", Status), form("archived", "archived_at", Since), col("replica", "route.record.route.replica_id"),
			wideForm("ended", "content.ended_at", Since), wideForm("content-archived", "content.archived_at", Since),
			wideForm("route-archived", "route.archived_at", Since), wideForm("told", "content.told_at", Since),
			wide("instance", "route.record.route.instance_id"), wide("version", "route.record.route.version_id"),
			wideForm("attempts", "route.record.attempts", Count), wide("result", "content.result_digest"), wide("evidence", "content.evidence_digest"),
		},
	}
}

// Actions is the noun of aipd's actions, which the registry does not keep.
func Actions() Noun {
	return Noun{
		Plural: "actions", Single: "action", Kind: "Actions", Filters: "state",
		About: "What a client asked for. Its id is taken for ever, its route never moves, and a definite result is final.",
		Columns: []Column{
			col("id", "id"), col("capability", "capability_id"), form("state", "state", Status), col("fence", "fence"),
			form("created", "created_at", Since), form("updated", "updated_at", Since),
			wide("tenant", "tenant_id"), wide("principal", "principal"), wide("runs", "runs"), wide("problem", "error.code"),
		},
	}
}
