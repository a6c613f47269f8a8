package routing

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// RingSize is the number of positions on the tie-break ring.
const RingSize = 1 << 31

// Key keys the ring of one deployment, so that a client cannot aim at a replica by
// choosing action ids. It is made at registry init and never changes.
type Key []byte

// Position returns where text lies on the ring: 31 bits of SHA-256 over the key, a
// label and the text, each separated by a zero byte.
func (k Key) Position(label, text string) int64 {
	h := sha256.New()
	h.Write(k)
	h.Write([]byte{0})
	h.Write([]byte(label))
	h.Write([]byte{0})
	h.Write([]byte(text))
	return int64(binary.BigEndian.Uint32(h.Sum(nil)) & (RingSize - 1))
}

// Replica returns a replica's place on the ring. A registry may store it.
func (k Key) Replica(id fleet.ReplicaID) int64 { return k.Position("replica", id.String()) }

// Instance returns an instance's offset for the draw by weight. A registry may store it.
func (k Key) Instance(id fleet.InstanceID) int64 { return k.Position("instance", id.String()) }

// Action returns where an action starts to look for a replica.
func (k Key) Action(id fleet.ActionID) int64 { return k.Position("action", id.String()) }

// Draw returns the action's point for the draw by weight.
func (k Key) Draw(id fleet.ActionID) int64 { return k.Position("draw", id.String()) }

// Distance is how far a replica lies after an action, walking upwards and wrapping round.
func Distance(action, replica int64) int64 { return (replica - action + RingSize) % RingSize }

// Weighted is one version of an instance with its weight.
type Weighted struct {
	Version fleet.VersionID
	Weight  uint32
}

// DrawOrder returns the versions of one instance in the order in which the action
// draws them: repeatedly the one under point*total/RingSize, without replacement.
// point is (Draw(action)+Instance(instance)) mod RingSize. Versions of weight 0 are
// left out. The input must be sorted by version id bytewise.
func DrawOrder(point int64, versions []Weighted) []fleet.VersionID {
	rest := make([]Weighted, 0, len(versions))
	for _, v := range versions {
		if v.Weight > 0 {
			rest = append(rest, v)
		}
	}
	order := make([]fleet.VersionID, 0, len(rest))
	for len(rest) > 0 {
		i := drawOne(point, rest)
		order = append(order, rest[i].Version)
		rest = append(rest[:i:i], rest[i+1:]...)
	}
	return order
}

func drawOne(point int64, rest []Weighted) int {
	var total uint64
	for _, v := range rest {
		total += uint64(v.Weight)
	}
	high, low := bits.Mul64(uint64(point), total) // two large weights would overflow one word
	mark, _ := bits.Div64(high, low, RingSize)
	for i, v := range rest {
		if mark < uint64(v.Weight) {
			return i
		}
		mark -= uint64(v.Weight)
	}
	return len(rest) - 1
}
