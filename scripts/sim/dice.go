package sim

import "time"

// dice draws by name: the same seed, topic, subject and count give the same draw,
// whatever else was drawn before.
type dice struct{ seed uint64 }

func (d dice) draw(topic, subject string, n int) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset) ^ d.seed
	for _, text := range [...]string{topic, "\x00", subject} {
		for i := range len(text) {
			h = (h ^ uint64(text[i])) * prime
		}
	}
	return mix(mix(h) + uint64(n))
}

// mix spreads every bit over all of them (splitmix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// unit is in [0, 1).
func (d dice) unit(topic, subject string, n int) float64 {
	return float64(d.draw(topic, subject, n)>>11) / (1 << 53)
}

func (d dice) chance(p float64, topic, subject string, n int) bool {
	return d.unit(topic, subject, n) < p
}

func (d dice) pick(count int, topic, subject string, n int) int {
	return int(d.draw(topic, subject, n) % uint64(count))
}

// between is in [low, high), to the nanosecond: two draws practically never name the
// same instant, so that at each instant one thing happens.
func (d dice) between(low, high time.Duration, topic, subject string, n int) time.Duration {
	return low + time.Duration(d.draw(topic, subject, n)%uint64(high-low))
}

// window is a stretch of time.
type window struct{ from, until time.Duration }

func (w window) holds(at time.Duration) bool { return at >= w.from && at < w.until }

// windows draws up to most stretches inside the storm, each within the given lengths.
func (d dice) windows(most int, low, high time.Duration, topic, subject string) []window {
	all := make([]window, d.pick(most+1, topic+" count", subject, 0))
	for i := range all {
		from := d.between(0, stormTime, topic+" from", subject, i)
		all[i] = window{from, from + d.between(low, high, topic+" length", subject, i)}
	}
	return all
}

func within(all []window, at time.Duration) bool {
	for _, w := range all {
		if w.holds(at) {
			return true
		}
	}
	return false
}
