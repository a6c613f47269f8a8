package sigstore

// Without is a broken verifier: it lacks one step.
func (v Verifier) Without(step string) Verifier {
	v.without = map[string]bool{step: true}
	return v
}

// Steps names every step, in order.
func Steps() []string {
	var names []string
	for _, s := range steps() {
		names = append(names, s.name)
	}
	return names
}
