package main

import "encoding/json"

// schemas are the JSON Schemas of a tool, written out rather than derived from Go
// types: they are the contract, and they say more than a type can.
type schemas struct{ input, output json.RawMessage }

var openSchemas = schemas{
	input: json.RawMessage(`{
		"type": "object",
		"properties": {
			"title": {"type": "string", "minLength": 1, "maxLength": 200, "description": "One line that names the problem"},
			"body": {"type": "string", "maxLength": 8000, "default": "", "description": "The problem in full"},
			"priority": {"type": "string", "enum": ["low", "normal", "high"], "default": "normal"}
		},
		"required": ["title"],
		"additionalProperties": false
	}`),
	output: json.RawMessage(`{
		"type": "object",
		"properties": {
			"ticket_id": {"type": "string"},
			"account": {"type": "string"},
			"title": {"type": "string"},
			"opened_at": {"type": "string", "format": "date-time"},
			"operation_id": {"type": "string"}
		},
		"required": ["ticket_id", "account", "title", "opened_at", "operation_id"],
		"additionalProperties": false
	}`),
}

var commentSchemas = schemas{
	input: json.RawMessage(`{
		"type": "object",
		"properties": {
			"ticket_id": {"type": "string", "minLength": 1},
			"comment": {"type": "string", "minLength": 1, "maxLength": 8000}
		},
		"required": ["ticket_id", "comment"],
		"additionalProperties": false
	}`),
	output: json.RawMessage(`{
		"type": "object",
		"properties": {
			"ticket_id": {"type": "string"},
			"account": {"type": "string"},
			"comment_number": {"type": "integer", "minimum": 1},
			"commented_at": {"type": "string", "format": "date-time"},
			"operation_id": {"type": "string"}
		},
		"required": ["ticket_id", "account", "comment_number", "commented_at", "operation_id"],
		"additionalProperties": false
	}`),
}

var closeSchemas = schemas{
	input: json.RawMessage(`{
		"type": "object",
		"properties": {
			"ticket_id": {"type": "string", "minLength": 1},
			"resolution": {"type": "string", "minLength": 1, "maxLength": 8000}
		},
		"required": ["ticket_id", "resolution"],
		"additionalProperties": false
	}`),
	output: json.RawMessage(`{
		"type": "object",
		"properties": {
			"ticket_id": {"type": "string"},
			"account": {"type": "string"},
			"resolution": {"type": "string"},
			"closed_at": {"type": "string", "format": "date-time"},
			"operation_id": {"type": "string"}
		},
		"required": ["ticket_id", "account", "resolution", "closed_at", "operation_id"],
		"additionalProperties": false
	}`),
}

// ticketSchema is one ticket as it is now.
const ticketSchema = `{
	"type": "object",
	"properties": {
		"ticket_id": {"type": "string"},
		"account": {"type": "string"},
		"title": {"type": "string"},
		"body": {"type": "string"},
		"priority": {"type": "string", "enum": ["low", "normal", "high"]},
		"status": {"type": "string", "enum": ["open", "closed"]},
		"opened_at": {"type": "string", "format": "date-time"},
		"closed_at": {"type": "string", "format": "date-time"},
		"resolution": {"type": "string"},
		"comments": {
			"type": "array",
			"items": {
				"type": "object",
				"properties": {
					"number": {"type": "integer", "minimum": 1},
					"text": {"type": "string"},
					"at": {"type": "string", "format": "date-time"}
				},
				"required": ["number", "text", "at"],
				"additionalProperties": false
			}
		}
	},
	"required": ["ticket_id", "account", "title", "body", "priority", "status", "opened_at", "comments"],
	"additionalProperties": false
}`

var getSchemas = schemas{
	input: json.RawMessage(`{
		"type": "object",
		"properties": {"ticket_id": {"type": "string", "minLength": 1}},
		"required": ["ticket_id"],
		"additionalProperties": false
	}`),
	output: json.RawMessage(ticketSchema),
}

var listSchemas = schemas{
	input: json.RawMessage(`{
		"type": "object",
		"properties": {
			"status": {"type": "string", "enum": ["", "open", "closed"], "default": ""},
			"after": {"type": "string", "default": "", "description": "next_after of the page before"},
			"limit": {"type": "integer", "minimum": 1, "maximum": 200, "default": 50}
		},
		"additionalProperties": false
	}`),
	output: json.RawMessage(`{
		"type": "object",
		"properties": {
			"account": {"type": "string"},
			"tickets": {"type": "array", "items": ` + ticketSchema + `},
			"next_after": {"type": "string"}
		},
		"required": ["account", "tickets"],
		"additionalProperties": false
	}`),
}

var findSchemas = schemas{
	input: json.RawMessage(`{
		"type": "object",
		"properties": {"idempotency_key": {"type": "string", "minLength": 1}},
		"required": ["idempotency_key"],
		"additionalProperties": false
	}`),
	output: json.RawMessage(`{
		"type": "object",
		"properties": {
			"found": {"type": "boolean"},
			"in_progress": {"type": "boolean", "description": "A call with the key still runs in this server: an effect may yet follow"},
			"operation": {
				"type": "object",
				"properties": {
					"operation_id": {"type": "string"},
					"tool": {"type": "string"},
					"account": {"type": "string"},
					"ticket_id": {"type": "string"},
					"action_id": {"type": "string"},
					"idempotency_key": {"type": "string"},
					"at": {"type": "string", "format": "date-time"}
				},
				"required": ["operation_id", "tool", "account", "ticket_id", "idempotency_key", "at"],
				"additionalProperties": false
			},
			"result": {"type": "object", "description": "What the original call answered"}
		},
		"required": ["found", "in_progress"],
		"additionalProperties": false
	}`),
}
