package admission

// Without is a broken evaluator: it lacks the checks that give these codes.
func (v Evaluator) Without(codes ...string) Evaluator {
	v.without = lacking(codes)
	return v
}

// Without is a broken reader of packages.
func (l Limits) Without(codes ...string) Limits {
	l.without = lacking(codes)
	return l
}

func lacking(codes []string) map[string]bool {
	set := map[string]bool{}
	for _, c := range codes {
		set[c] = true
	}
	return set
}
