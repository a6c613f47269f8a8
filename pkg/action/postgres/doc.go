// Package postgres keeps action records in PostgreSQL, for any number of aipd
// processes on one database.
//
// It keeps every promise of action.Store (G03, G18, G44), with schema guards behind
// them: submissions and results are insert-only for every login role, so that an id,
// a key and a definite result mean one thing for ever. Every method is one statement;
// owner leases are judged by the database's clock. Under load, changes of many actions
// share a transaction (Sharing).
//
// It runs as aip_data, on the same pool as the registry's data plane.
package postgres
