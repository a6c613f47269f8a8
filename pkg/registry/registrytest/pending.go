package registrytest

func catalogCases() []Case    { return nil }
func publishCases() []Case    { return nil }
func resolveCases() []Case    { return nil }
func reuseCases() []Case      { return nil }
func orderCases() []Case      { return nil }
func capacityCases() []Case   { return nil }
func circuitCases() []Case    { return nil }
func leaseCases() []Case      { return nil }
func expiryCases() []Case     { return nil }
func tenancyCases() []Case    { return nil }
func boundsCases() []Case     { return nil }
func cancelCases() []Case     { return nil }
func aliasingCases() []Case   { return nil }
func uncertainCases() []Case  { return nil }
func concurrentCases() []Case { return nil }
func modelCases() []Case      { return nil }
