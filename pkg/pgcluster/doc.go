// Package pgcluster answers: how does this machine get a private PostgreSQL
// server, and how does it get rid of it again?
//
// A cluster lives in one directory. Start creates it when the directory is
// empty, runs the server as a direct child (or detached, for a fleet that stays
// up), and returns once a client could log in. The server listens on IPv4
// loopback only, and every connection authenticates with SCRAM: there is no
// trust rule, so a wrong role or password fails here as it fails elsewhere.
//
// PostgreSQL refuses to run as root. When the caller is root, the server runs as
// the account postgres, or nobody; when that account cannot reach the directory
// (a checkout below a 0700 home), the data moves to the system's temporary
// directory and the cluster directory keeps a pointer to it.
//
// What it guarantees: a Cluster that is not detached ends with the process that
// started it (on Linux even when that process is killed); Kill leaves no process
// of the server behind; a database directory is either complete or absent, since
// it is initialised beside its place and renamed.
//
// What it does not own: roles, schemas, migrations, connection pools, and any
// server that it did not start.
package pgcluster
