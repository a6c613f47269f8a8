package registrytest

func orderCases() []Case      { return nil }
func leaseCases() []Case      { return nil }
func expiryCases() []Case     { return nil }
func tenancyCases() []Case    { return nil }
func boundsCases() []Case     { return nil }
func cancelCases() []Case     { return nil }
func aliasingCases() []Case   { return nil }
func uncertainCases() []Case  { return nil }
func concurrentCases() []Case { return nil }
func modelCases() []Case      { return nil }
