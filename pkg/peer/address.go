package peer

import (
	"net/netip"
	"slices"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// CodeAddress is the code of an address that the policy refuses.
const CodeAddress = "peer.address"

// AddressPolicy says which addresses may be dialled. The zero policy allows
// public unicast addresses and nothing else.
type AddressPolicy struct {
	// Allow lists ranges that a deployment permits although they are special:
	// its own private network, or loopback for development. An embedded IPv4
	// address (mapped, NAT64, 6to4) is allowed only if the IPv4 address itself
	// is.
	Allow []netip.Prefix
}

// LoopbackPolicy allows loopback besides public addresses, for development.
func LoopbackPolicy() AddressPolicy {
	return AddressPolicy{Allow: []netip.Prefix{
		netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"),
	}}
}

// ParseAllow reads the ranges of a configuration file.
func ParseAllow(prefixes []string) (AddressPolicy, error) {
	var p AddressPolicy
	for _, s := range prefixes {
		prefix, err := netip.ParsePrefix(s)
		if err != nil || prefix != prefix.Masked() {
			return AddressPolicy{}, fleet.Invalidf(CodeAddress, "the allowed range %q is not valid", fleet.Printable(s, 64)).
				Because("it is not a prefix such as 10.0.0.0/8")
		}
		p.Allow = append(p.Allow, prefix)
	}
	return p, nil
}

// Check refuses an address that is special and not allowed; the error names the
// rule. The error is a *fleet.Error of kind denied.
func (p AddressPolicy) Check(addr netip.Addr) error {
	if !addr.IsValid() || addr.Zone() != "" {
		return refuseAddress(addr, "it is not a plain address")
	}
	inner, wrapped := embedded(addr)
	if wrapped {
		addr = inner
	}
	if slices.ContainsFunc(p.Allow, func(r netip.Prefix) bool { return r.Contains(addr) }) {
		return nil
	}
	for _, r := range specialRanges() {
		if r.prefix.Contains(addr) {
			return refuseAddress(addr, r.why)
		}
	}
	if addr.Is6() && !globalUnicast6().Contains(addr) {
		return refuseAddress(addr, "it is outside global unicast")
	}
	return nil
}

func refuseAddress(addr netip.Addr, why string) error {
	e := fleet.Errorf(fleet.Denied, CodeAddress, "the address %s may not be dialled", addr).Because("%s", why)
	return e.Advise("allow its range in the deployment's address policy, if it is meant")
}

// embedded takes the IPv4 address that an IPv6 address stands for: what is
// dialled is the inner one, so it is judged.
func embedded(addr netip.Addr) (netip.Addr, bool) {
	if addr.Is4In6() {
		return addr.Unmap(), true
	}
	if !addr.Is6() {
		return addr, false
	}
	b := addr.As16()
	switch {
	case netip.MustParsePrefix("64:ff9b::/96").Contains(addr), netip.MustParsePrefix("::/96").Contains(addr) && !isUnspecifiedOrLoopback(addr):
		return netip.AddrFrom4([4]byte(b[12:16])), true
	case netip.MustParsePrefix("2002::/16").Contains(addr):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	}
	return addr, false
}

func isUnspecifiedOrLoopback(addr netip.Addr) bool { return addr.IsUnspecified() || addr.IsLoopback() }

func globalUnicast6() netip.Prefix { return netip.MustParsePrefix("2000::/3") }

type specialRange struct {
	prefix netip.Prefix
	why    string
}

// specialRanges follows the IANA special-purpose address registries. Metadata
// services of clouds come first, so that the refusal names them.
func specialRanges() []specialRange { return specialTable[:] }

var specialTable = [...]specialRange{
	{netip.MustParsePrefix("169.254.169.254/32"), "it is a metadata service"},
	{netip.MustParsePrefix("169.254.170.2/32"), "it is a metadata service"},
	{netip.MustParsePrefix("100.100.100.200/32"), "it is a metadata service"},
	{netip.MustParsePrefix("168.63.129.16/32"), "it is a metadata service"},
	{netip.MustParsePrefix("192.0.0.192/32"), "it is a metadata service"},
	{netip.MustParsePrefix("fd00:ec2::/32"), "it is a metadata service"},
	{netip.MustParsePrefix("0.0.0.0/8"), "it is unspecified"},
	{netip.MustParsePrefix("10.0.0.0/8"), "it is private"},
	{netip.MustParsePrefix("100.64.0.0/10"), "it is shared address space (carrier NAT)"},
	{netip.MustParsePrefix("127.0.0.0/8"), "it is loopback"},
	{netip.MustParsePrefix("169.254.0.0/16"), "it is link-local"},
	{netip.MustParsePrefix("172.16.0.0/12"), "it is private"},
	{netip.MustParsePrefix("192.0.0.0/24"), "it is reserved for protocols"},
	{netip.MustParsePrefix("192.0.2.0/24"), "it is for documentation"},
	{netip.MustParsePrefix("192.31.196.0/24"), "it is reserved for protocols"},
	{netip.MustParsePrefix("192.52.193.0/24"), "it is reserved for protocols"},
	{netip.MustParsePrefix("192.88.99.0/24"), "it is a 6to4 relay"},
	{netip.MustParsePrefix("192.168.0.0/16"), "it is private"},
	{netip.MustParsePrefix("192.175.48.0/24"), "it is reserved for protocols"},
	{netip.MustParsePrefix("198.18.0.0/15"), "it is for benchmarks"},
	{netip.MustParsePrefix("198.51.100.0/24"), "it is for documentation"},
	{netip.MustParsePrefix("203.0.113.0/24"), "it is for documentation"},
	{netip.MustParsePrefix("224.0.0.0/4"), "it is multicast"},
	{netip.MustParsePrefix("240.0.0.0/4"), "it is reserved or broadcast"},
	{netip.MustParsePrefix("::/128"), "it is unspecified"},
	{netip.MustParsePrefix("::1/128"), "it is loopback"},
	{netip.MustParsePrefix("64:ff9b:1::/48"), "it is a local NAT64 range"},
	{netip.MustParsePrefix("100::/64"), "it is the discard range"},
	{netip.MustParsePrefix("2001::/23"), "it is reserved for protocols (Teredo, ORCHID, benchmarks)"},
	{netip.MustParsePrefix("2001:db8::/32"), "it is for documentation"},
	{netip.MustParsePrefix("2620:4f:8000::/48"), "it is reserved for protocols"},
	{netip.MustParsePrefix("3fff::/20"), "it is for documentation"},
	{netip.MustParsePrefix("5f00::/16"), "it is reserved for segment routing"},
	{netip.MustParsePrefix("fc00::/7"), "it is private"},
	{netip.MustParsePrefix("fe80::/10"), "it is link-local"},
	{netip.MustParsePrefix("fec0::/10"), "it is site-local"},
	{netip.MustParsePrefix("ff00::/8"), "it is multicast"},
}
