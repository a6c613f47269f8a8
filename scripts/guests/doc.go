// Package guests answers: does the fleet carry connectors that it was not written for?
//
// Its tests make a private fleet of real processes with the real aipctl, pack, sign and
// admit foreign MCP servers, and call every tool of them through aipd:
//
//   - the public reference servers "everything" and "filesystem" from npm, pinned by
//     lock files with the digest of every package (make public-mcp);
//   - a server that shows its credential wherever it can: the credential must not get
//     out of its process by any way of the fleet (G21).
package guests
