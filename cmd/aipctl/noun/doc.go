// Package noun says what the records of the registry are called on the command
// line, which columns they have, and how they are filtered and sorted.
//
// It answers "what does get replicas show, and what does --where mean?". A column
// is a name and a path into the record's JSON form, so every filter, sort and
// column works on what -o json prints.
//
// It does not own the records (package registry) nor how output is laid out
// (package app).
package noun
