package admission

import (
	"slices"
	"strings"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// checkImplementation compares what an implementation claims with what its adapter
// can do and with what the contract asks for.
func (e *evaluation) checkImplementation(place string, impl fleet.Implementation) {
	if !slices.Contains(fleet.Adapters(), impl.Adapter) {
		e.found.add("manifest.adapter_unknown", place+".adapter", "use one of: "+strings.Join(fleet.Adapters(), ", "), "no host has an adapter %q", impl.Adapter)
		return
	}
	c, _ := e.pkg.manifest.Capability(impl.Capability)
	e.checkTransaction(place, impl, c.Contract)
	e.checkTools(place, impl)
}

// checkOneAdapter: a host runs one adapter, so a release has one.
func (e *evaluation) checkOneAdapter(m fleet.Manifest) {
	unknown := func(i fleet.Implementation) bool { return !slices.Contains(fleet.Adapters(), i.Adapter) }
	if m.Adapter() == "" && !slices.ContainsFunc(m.Implementations, unknown) {
		e.found.add("manifest.adapters_mixed", ManifestFile+"#implementations", "make a release for each adapter", "a host runs one adapter, and the implementations name several")
	}
}

// checkTransaction: a transactional capability names the tools that plan and give
// back, and no other capability does; one that can be compensated names the tool.
func (e *evaluation) checkTransaction(place string, impl fleet.Implementation, contract fleet.Contract) {
	const code = "manifest.contract_not_covered"
	mode := contract.TransactionMode()
	switch {
	case mode != "" && mode != fleet.TransactionPlanCommit:
		e.found.add(code, place, "drop the transaction contract, or use mode "+fleet.TransactionPlanCommit, "no host can serve the transaction mode %q", fleet.Printable(mode, 64))
	case mode != "" && (impl.PlanTool == "" || impl.CompensateTool == ""):
		e.found.add(code, place, "name plan_tool and compensate_tool, or drop the transaction contract", "the transaction contract is not implemented")
	case mode == "" && impl.PlanTool != "":
		e.found.add(code, place+".plan_tool", "drop plan_tool, or add the transaction contract", "the contract says nothing of a plan")
	}
	if contract.Compensable() && impl.CompensateTool == "" {
		e.found.add(code, place, "name a compensate_tool, or drop the compensation contract", "the compensation contract is not implemented")
	}
}

// checkTools: what looks, prepares or undoes is never the tool that has the effect.
func (e *evaluation) checkTools(place string, impl fleet.Implementation) {
	if impl.ReconcileTool != "" && (impl.ReconcileTool == impl.Tool || impl.ReconcileTool == impl.PlanTool || impl.ReconcileTool == impl.CompensateTool) {
		e.found.add("manifest.reconcile_tool", place+".reconcile_tool", "name a tool that only looks", "%s cannot reconcile by %q", impl.Adapter, fleet.Printable(impl.ReconcileTool, 100))
	}
	if impl.PlanTool != "" && (impl.PlanTool == impl.Tool || impl.PlanTool == impl.CompensateTool) || impl.CompensateTool != "" && impl.CompensateTool == impl.Tool {
		e.found.add("manifest.transaction_tool", place, "name three different tools", "one tool cannot plan, commit and take back")
	}
}
