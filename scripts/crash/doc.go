// Package crash answers: do real processes keep the fleet's promises when they, their
// database, their disk, their clock or the network between them fail?
//
// It makes a private fleet of programs built with the tag crashpoints: PostgreSQL, the
// lifecycle service, two aipd, three hosts with their connectors. Between them stand
// small proxies. Each test breaks one thing on purpose, at one named moment, under
// work, and proves that it did; then everything is healed and must become quiet: every
// acknowledged action at its end, called at most once, nothing reserved, nothing in
// question, the registry's audit clean (G12, G25, G38, G39).
//
// The package holds what the tests are made of. It knows the fleet only by its
// programs, files and ports.
package crash
