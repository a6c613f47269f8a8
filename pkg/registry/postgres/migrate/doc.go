// Package migrate answers: how does a database become a registry, and is it one?
//
// Init makes the roles of the cluster and the schema of one database; Up applies
// what is pending; Down takes one step back; Status and Verify look.
//
// It guarantees that an applied migration whose text was edited since is noticed
// before anything else is applied, that two runs at once do not interleave, that
// the deployment's keys are made once and never changed, and that a role which other
// databases of the cluster are used with keeps its password unless a rotation was
// asked for.
//
// It does not read or write records of the registry; package postgres does, and
// never links this package or goose.
package migrate
