package registrytest

func concurrentCases() []Case { return nil }
func modelCases() []Case      { return nil }
