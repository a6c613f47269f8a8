package peer

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// CodeEndpoint is the code of an endpoint that is refused.
const CodeEndpoint = "peer.endpoint"

const maxEndpointBytes = 2048

// Endpoint is the base URL of a peer. Only ParseEndpoint makes one.
type Endpoint struct {
	text   string // without a trailing slash
	plain  bool
	origin string
}

// ParseEndpoint reads https://host[:port][/path], or http to a loopback literal
// or localhost, for development. User information, query, fragment, dot segments
// and names in another form than lower-case ASCII are refused.
func ParseEndpoint(s string) (Endpoint, error) {
	if len(s) > maxEndpointBytes {
		return Endpoint{}, badEndpoint("it is longer than 2048 bytes")
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' || s[i] == '\\' || s[i] == '%' {
			return Endpoint{}, badEndpoint("it holds a character that an endpoint does not need")
		}
	}
	u, err := url.Parse(s)
	if err != nil || u.Opaque != "" {
		return Endpoint{}, badEndpoint("it is not a URL")
	}
	if u.User != nil || strings.ContainsAny(s, "?#@") {
		return Endpoint{}, badEndpoint("user information, query and fragment have no place in it")
	}
	if err := checkHost(u); err != nil {
		return Endpoint{}, err
	}
	for segment := range strings.SplitSeq(u.Path, "/") {
		if segment == "." || segment == ".." {
			return Endpoint{}, badEndpoint("its path has dot segments")
		}
	}
	e := Endpoint{text: strings.TrimRight(s, "/"), plain: u.Scheme == "http", origin: u.Scheme + "://" + u.Host}
	return e, nil
}

func checkHost(u *url.URL) error {
	host := u.Hostname()
	if host == "" || host != strings.ToLower(host) || strings.HasSuffix(host, ".") {
		return badEndpoint("its host is missing or not in lower case")
	}
	if strings.HasSuffix(u.Host, ":") {
		return badEndpoint("its port is missing")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return badEndpoint("its port is not 1..65535")
		}
	}
	addr, err := netip.ParseAddr(host)
	switch {
	case err == nil && addr.Zone() != "":
		return badEndpoint("its address has a zone")
	case err != nil && looksNumeric(host):
		return badEndpoint("its host is a number in a form that systems read differently")
	}
	loopback := err == nil && addr.IsLoopback() || host == "localhost"
	switch {
	case u.Scheme == "https", u.Scheme == "http" && loopback:
		return nil
	case u.Scheme == "http":
		return badEndpoint("http reaches only a loopback address: use https")
	default:
		return badEndpoint("its scheme is not https")
	}
}

// looksNumeric reports a host whose last label starts like a number: 127.1,
// 2130706433, 0x7f.1. Resolvers disagree about what it means.
func looksNumeric(host string) bool {
	last := host[strings.LastIndexByte(host, '.')+1:]
	return last != "" && last[0] >= '0' && last[0] <= '9'
}

// IsZero reports whether there is no endpoint.
func (e Endpoint) IsZero() bool { return e.text == "" }

// String is the endpoint as given, without a trailing slash.
func (e Endpoint) String() string { return e.text }

// Origin is scheme, host and port.
func (e Endpoint) Origin() string { return e.origin }

func badEndpoint(why string) error {
	e := fleet.Invalidf(CodeEndpoint, "the endpoint is refused").Because("%s", why)
	return e.Advise("give https://host[:port][/path]")
}
