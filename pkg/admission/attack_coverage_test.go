package admission_test

import "strings"

const (
	writeContract = `"idempotency": "provider_key"}`
	transactional = `"idempotency": "provider_key", "transaction": {"mode": "plan_commit"}}`
	openTool      = `"tool": "open"`
)

// manifestAttack signs a manifest in which texts were replaced.
func manifestAttack(name, code string, fromTo ...string) attack {
	return attack{name: name, want: code, do: func(b *bench) {
		for i := 0; i < len(fromTo); i += 2 {
			b.replace("manifest.json", fromTo[i], fromTo[i+1])
		}
		b.signAll()
	}}
}

// coverageAttacks offer what their implementations do not do.
func coverageAttacks() []attack {
	return []attack{
		manifestAttack("two adapters in one release", "manifest.adapters_mixed", `"adapter": "mcp"`, `"adapter": "exec"`),
		manifestAttack("transaction that nothing plans", "manifest.contract_not_covered", writeContract, transactional),
		manifestAttack("transaction of a mode that no host knows", "manifest.contract_not_covered",
			writeContract, strings.Replace(transactional, "plan_commit", "two_phase", 1), openTool, openTool+`, "plan_tool": "hold", "compensate_tool": "undo"`),
		manifestAttack("plan that the contract does not mention", "manifest.contract_not_covered", openTool, openTool+`, "plan_tool": "hold", "compensate_tool": "undo"`),
		manifestAttack("compensation that nothing does", "manifest.contract_not_covered", writeContract, `"idempotency": "provider_key", "compensation": {"supported": true}}`),
		manifestAttack("plan that is the effect", "manifest.transaction_tool",
			writeContract, transactional, openTool, openTool+`, "plan_tool": "open", "compensate_tool": "undo"`),
		manifestAttack("reconciling by the effect", "manifest.reconcile_tool", `"reconcile_tool": "find"`, `"reconcile_tool": "open"`),
	}
}
