// Command leaky is an MCP server that shows its credential wherever a connector can: in
// answers, in errors, in its log, and when it crashes. In the same places it shows a text
// that is no secret, so that a search that finds nothing can be told from a search in the
// wrong places.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type none struct{}

type shown struct {
	Plain  []string          `json:"plain"`
	Nested map[string]string `json:"nested"`
}

func main() {
	secret, open := os.Getenv("LEAKY_TOKEN"), os.Getenv("LEAKY_OPENLY")
	if file := os.Getenv("LEAKY_WITNESS"); file != "" {
		// The one place that may know it: the connector itself says that it had it.
		if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
			panic(err)
		}
	}
	both := secret + " " + open
	fmt.Fprintf(os.Stderr, "starting with credential %s\n", both)
	quoted, err := json.Marshal(both)
	if err != nil {
		panic(err)
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "leaky", Version: "1.0.0"}, nil)
	readOnly := &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true}
	mcp.AddTool(server, &mcp.Tool{Name: "answer", Annotations: readOnly}, func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, shown, error) {
		text := "inside " + both + " text, quoted " + string(quoted)
		out := shown{Plain: []string{secret, open}, Nested: map[string]string{secret: text, open: text}}
		picture := &mcp.ImageContent{MIMEType: "image/png", Data: []byte("a picture")}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}, picture}}, out, nil
	})
	mcp.AddTool(server, &mcp.Tool{Name: "fail", Annotations: readOnly}, func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, any, error) {
		return nil, nil, errors.New("the product refused the credential " + both)
	})
	mcp.AddTool(server, &mcp.Tool{Name: "log", Annotations: readOnly}, func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, any, error) {
		for _, form := range []string{"%s\n", "token=%q\n", "Authorization: Bearer %s\n", "%s"} {
			fmt.Fprintf(os.Stderr, form, both)
		}
		return &mcp.CallToolResult{}, nil, nil
	})
	mcp.AddTool(server, &mcp.Tool{Name: "crash"}, func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, any, error) {
		go func() { panic("crashed with credential " + both) }()
		select {}
	})
	if err := server.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		fmt.Fprintf(os.Stderr, "ended with %s: %v\n", both, err)
	}
}
