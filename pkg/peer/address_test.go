package peer_test

import (
	"net/netip"
	"testing"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/peer"
)

// literals is addresses, and whether the zero policy lets them be dialled.
var literals = map[string]bool{
	// public
	"1.1.1.1": true, "8.8.8.8": true, "93.184.216.34": true, "100.63.255.255": true, "100.128.0.0": true, "172.15.255.255": true,
	"172.32.0.0": true, "192.167.255.255": true, "192.169.0.0": true, "198.17.255.255": true, "198.20.0.0": true, "223.255.255.255": true,
	"169.253.255.255": true, "11.0.0.0": true, "9.255.255.255": true, "126.255.255.255": true, "128.0.0.0": true,
	"2606:4700:4700::1111": true, "2a00:1450:4001:800::200e": true, "2001:4860:4860::8888": true,
	// unspecified, "this network"
	"0.0.0.0": false, "0.1.2.3": false, "::": false,
	// loopback
	"127.0.0.1": false, "127.255.255.254": false, "127.1.2.3": false, "::1": false,
	// private
	"10.0.0.0": false, "10.255.255.255": false, "172.16.0.0": false, "172.31.255.255": false, "192.168.0.0": false, "192.168.255.255": false,
	"fc00::1": false, "fd12:3456:789a::1": false, "fdff:ffff::1": false,
	// link-local and site-local
	"169.254.0.1": false, "169.254.255.255": false, "fe80::1": false, "febf::1": false, "fec0::1": false,
	// carrier NAT
	"100.64.0.0": false, "100.127.255.255": false,
	// metadata services
	"169.254.169.254": false, "169.254.170.2": false, "100.100.100.200": false, "168.63.129.16": false, "192.0.0.192": false, "fd00:ec2::254": false,
	// mapped, compatible, NAT64, 6to4: judged by what is inside
	"::ffff:127.0.0.1": false, "::ffff:10.0.0.1": false, "::ffff:169.254.169.254": false, "::ffff:0.0.0.0": false, "::ffff:8.8.8.8": true,
	"::127.0.0.1": false, "::10.0.0.1": false, "64:ff9b::7f00:1": false, "64:ff9b::a9fe:a9fe": false, "64:ff9b::c0a8:1": false,
	"64:ff9b::808:808": true, "64:ff9b:1::1": false, "2002:7f00:1::": false, "2002:c0a8:101::1": false, "2002:a9fe:a9fe::": false, "2002:808:808::1": true,
	// multicast and broadcast
	"224.0.0.1": false, "239.255.255.255": false, "ff02::1": false, "ff0e::1": false, "255.255.255.255": false, "240.0.0.1": false,
	// documentation, benchmarks, protocols
	"192.0.2.1": false, "198.51.100.7": false, "203.0.113.9": false, "2001:db8::1": false, "3fff::1": false, "198.18.0.1": false, "198.19.255.255": false,
	"192.0.0.1": false, "192.88.99.1": false, "100::1": false, "2001::1": false, "2001:20::1": false, "5f00::1": false,
	// outside global unicast
	"4000::1": false, "8000::1": false, "::2": false, "1::1": false,
}

func TestAddressPolicy_G19_SpecialAddressesAreNotDialled(t *testing.T) {
	if len(literals) < 80 {
		t.Fatalf("%d literals, want at least 80", len(literals))
	}
	for text, want := range literals {
		err := (peer.AddressPolicy{}).Check(netip.MustParseAddr(text))
		if (err == nil) != want {
			t.Errorf("%s: %v, want allowed %v", text, err, want)
		}
		if err != nil && (fleet.CodeOf(err) != peer.CodeAddress || !fleet.Is(err, fleet.Denied)) {
			t.Errorf("%s: refused without its code: %v", text, err)
		}
	}
	for name, addr := range map[string]netip.Addr{"zero": {}, "zone": netip.MustParseAddr("2606:4700::1%eth0")} {
		if (peer.AddressPolicy{}).Check(addr) == nil {
			t.Errorf("%s was allowed", name)
		}
	}
}

func TestAddressPolicy_G19_OnlyTheAllowedRangeOpens(t *testing.T) {
	policy, err := peer.ParseAllow([]string{"10.1.0.0/16", "fd12::/16"})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		"10.1.2.3": true, "10.2.0.0": false, "192.168.1.1": false, "fd12::1": true, "fd13::1": false, "::ffff:10.1.2.3": true,
		"64:ff9b::a01:203": true, "64:ff9b::a02:203": false, "127.0.0.1": false, "8.8.8.8": true, "::1": false,
	} {
		if err := policy.Check(netip.MustParseAddr(text)); (err == nil) != want {
			t.Errorf("%s: %v, want allowed %v", text, err, want)
		}
	}
	loopback := peer.LoopbackPolicy()
	for text, want := range map[string]bool{"127.0.0.1": true, "::1": true, "::ffff:127.0.0.1": true, "10.0.0.1": false, "169.254.169.254": false} {
		if err := loopback.Check(netip.MustParseAddr(text)); (err == nil) != want {
			t.Errorf("loopback policy on %s: %v, want allowed %v", text, err, want)
		}
	}
	for _, bad := range []string{"", "10.0.0.1", "10.0.0.1/8", "10.0.0.0/33", "localhost/8", "fe80::%eth0/10"} {
		if _, err := peer.ParseAllow([]string{bad}); fleet.CodeOf(err) != peer.CodeAddress {
			t.Errorf("range %q: %v", bad, err)
		}
	}
}

func TestEndpoint_G19_OnlyPlainHTTPSOrLoopbackHTTP(t *testing.T) {
	good := map[string]string{
		"https://host.example": "https://host.example", "https://host.example:8443/": "https://host.example:8443",
		"https://host.example/base/": "https://host.example/base", "https://10.0.0.1:1": "https://10.0.0.1:1", "https://[2001:db8::1]:443/x": "https://[2001:db8::1]:443/x",
		"http://127.0.0.1:8080": "http://127.0.0.1:8080", "http://[::1]:8080": "http://[::1]:8080", "http://localhost:8080": "http://localhost:8080",
	}
	for text, want := range good {
		if e, err := peer.ParseEndpoint(text); err != nil || e.String() != want {
			t.Errorf("%s: %s %v", text, e, err)
		}
	}
	bad := []string{
		"", "host.example", "//host.example", "ftp://host.example", "file:///etc/passwd", "unix:///run/x.sock", "HTTPS://host.example/ x", "https://",
		"https:host.example", "https://user@host.example", "https://user:pw@host.example", "https://@host.example", "https://host.example?x=1",
		"https://host.example?", "https://host.example#f", "https://host.example#", "https://host.example/../x", "https://host.example/./x",
		"https://host.example/%2e%2e/x", "https://host.example:0", "https://host.example:65536", "https://host.example:", "https://host.example:x",
		"https://HOST.example", "https://host.example.", "https://host\\.example", "https://hóst.example", "https://host example", "https://127.1",
		"https://2130706433", "https://0x7f000001", "https://0177.0.0.1", "https://1.2.3.4.5", "https://[fe80::1%25eth0]/", "http://host.example",
		"http://10.0.0.1", "http://127.0.0.1.example", "http://localhost.example", "http://0.0.0.0", "http://[::ffff:10.0.0.1]",
		"https://host.example\n", "javascript:alert(1)", "https://host.example/\tx",
	}
	for _, text := range bad {
		if e, err := peer.ParseEndpoint(text); fleet.CodeOf(err) != peer.CodeEndpoint || !e.IsZero() {
			t.Errorf("%q was taken as %q: %v", text, e, err)
		}
	}
}

func FuzzParseEndpoint(f *testing.F) {
	for _, s := range []string{"https://host.example:8443/x", "http://[::1]:80", "https://a@b", "http://127.0.0.1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		e, err := peer.ParseEndpoint(s)
		if err != nil {
			return
		}
		again, err := peer.ParseEndpoint(e.String())
		if err != nil || again != e {
			t.Fatalf("%q was taken as %q, which is taken as %q: %v", s, e, again, err)
		}
	})
}
