package envelope

import "sync"

// remembered keeps identities that were parsed lately, by their text: every message
// names the same few four times, and to parse one costs more than to hash a page. What
// it gives cannot be told from parsing anew, so that one serves the whole process.
//
// It holds at most two generations. A full young one becomes the old one; what is
// asked for again is taken over into the young one, so that a flood of strange
// identities costs their parsing and displaces nothing that is in use for long.
type remembered struct {
	mu         sync.RWMutex
	young, old map[string]DID
}

// generation is how many identities one generation holds; about a megabyte.
const generation = 4096

func (r *remembered) get(text string) (DID, bool) {
	r.mu.RLock()
	d, known := r.young[text]
	if known {
		r.mu.RUnlock()
		return d, true
	}
	d, known = r.old[text]
	r.mu.RUnlock()
	if known {
		r.keep(d)
	}
	return d, known
}

func (r *remembered) keep(d DID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.young == nil || len(r.young) >= generation {
		r.young, r.old = make(map[string]DID), r.young
	}
	r.young[d.text] = d
}
