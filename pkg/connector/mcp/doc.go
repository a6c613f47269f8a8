// Package mcp answers: how does a host call the tools of an MCP server, and what
// does it know when a call does not come back?
//
// The server is a child process that speaks MCP on its standard streams. Its
// program is made ready anew before each start by the caller, who proves its
// digest (G28). It gets the environment it is given and nothing of the host's;
// credentials reach it through that environment and are struck out of what it
// writes to its log (G21). A child that ends is started again, with growing pauses.
//
// A call counts as not started only when the child was not there or no byte of the
// call was handed to it. Once it was, a broken pipe, an ended child and a deadline
// are all unknown; a tool error and a refused parameter are definite failures.
//
// An answer's structured content is the output, and the parts of its content go beside
// it as they came; a single text that only repeats the structure says nothing more and
// is left out. Of an answer without structure the output is the texts, with all parts
// when some are not plain texts. Of a tool error the message is the texts, cut to what
// a person reads; all parts go beside it when the message does not say everything.
//
// Tools are compared with the admitted manifest at each start. A difference makes
// the connector unhealthy and names the tool (G34).
//
// The package does not own whether a call may be made. It knows no product.
package mcp
