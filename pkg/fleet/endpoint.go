package fleet

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// CheckEndpoint accepts https, and http to a loopback address or localhost only: no
// user, query or fragment, a host, and a port in range when there is one. Whether the
// address may be dialled is package peer's question.
func CheckEndpoint(endpoint string) *Error {
	refuse := func(why string) *Error {
		return Invalidf("record.endpoint", "endpoint %q is not allowed", printable(endpoint, 128)).Because("%s", why)
	}
	if len(endpoint) > maxEndpointBytes || checkVisibleASCII(endpoint, maxEndpointBytes) != nil {
		return refuse("it needs 1..2048 bytes of visible ASCII")
	}
	u, err := url.Parse(endpoint)
	switch {
	case err != nil:
		return refuse("it is not a URL")
	case u.User != nil:
		return refuse("it carries a user")
	case strings.ContainsAny(endpoint, "?#"):
		return refuse("it carries a query or a fragment")
	case u.Opaque != "" || u.Hostname() == "":
		return refuse("it has no host")
	case badPort(u):
		return refuse("its port is not 1..65535")
	case u.Scheme == "https", u.Scheme == "http" && loopback(u.Hostname()):
		return nil
	}
	return refuse("it must be https, or http to a loopback address")
}

func badPort(u *url.URL) bool {
	if u.Port() == "" {
		return strings.HasSuffix(u.Host, ":")
	}
	n, err := strconv.Atoi(u.Port())
	return err != nil || n < 1 || n > 65535
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}
