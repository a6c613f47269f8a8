package hostiletest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// Surface is one HTTP surface of a running program.
type Surface struct {
	Addr string // host:port, plain HTTP
	Path string // which takes POSTs of JSON
	// Body is a request body that the surface reads to its end; it need not succeed.
	Body string
	// Token is a bearer credential, "" when the surface takes none.
	Token string
}

// request is one raw request: head and body as they go over the wire.
type request struct {
	name string
	raw  string
	// fine says that success would not be wrong: only the number of answers counts.
	fine bool
}

// second stands behind a request: if it is answered, it was smuggled in.
const second = "GET /health HTTP/1.1\r\nHost: smuggled\r\n\r\n"

func (s Surface) post(headers, body string) string {
	auth := ""
	if s.Token != "" {
		auth = "Authorization: Bearer " + s.Token + "\r\n"
	}
	return "POST " + s.Path + " HTTP/1.1\r\nHost: " + s.Addr + "\r\n" + auth + headers + "\r\n" + body
}

func (s Surface) requests() []request {
	json, length := "Content-Type: application/json\r\n", fmt.Sprintf("Content-Length: %d\r\n", len(s.Body))
	chunk := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(s.Body), s.Body)
	with := func(name, headers, body string) request { return request{name: name, raw: s.post(json+headers, body)} }
	line := func(name, first string) request {
		return request{name: name, raw: first + "\r\nHost: " + s.Addr + "\r\n" + json + length + "\r\n" + s.Body}
	}
	return slices.Concat(
		[]request{
			with("length and chunks", length+"Transfer-Encoding: chunked\r\n", chunk+second),
			with("chunks and length", "Transfer-Encoding: chunked\r\n"+length, "0\r\n\r\n"+second),
			with("chunks alone", "Transfer-Encoding: chunked\r\n", chunk+second),
			with("chunks twice", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", chunk+second),
			with("chunks and identity", "Transfer-Encoding: chunked, identity\r\n", chunk+second),
			with("unknown coding", "Transfer-Encoding: xchunked\r\n"+length, s.Body+second),
			with("coding after a tab", "Transfer-Encoding:\tchunked\r\n"+length, chunk+second),
			with("coding with a space before the colon", "Transfer-Encoding : chunked\r\n"+length, chunk+second),
			with("coding in other case", "Transfer-Encoding: CHUNKED\r\n"+length, chunk+second),
			with("coding with a line feed", "Transfer-Encoding: chunked\nX: y\r\n"+length, chunk+second),
			with("two lengths", length+"Content-Length: 0\r\n", s.Body+second),
			with("lengths in one header", "Content-Length: 0, 5\r\n", second),
			with("negative length", "Content-Length: -1\r\n", second),
			with("signed length", "Content-Length: +5\r\n", second),
			with("length in hex", "Content-Length: 0x5\r\n", second),
			with("length with a space inside", "Content-Length: 1 0\r\n", second),
			with("huge length", "Content-Length: 99999999999999999999\r\n", second),
			with("broken chunk size", "Transfer-Encoding: chunked\r\n", "zz\r\n"+second),
			with("negative chunk size", "Transfer-Encoding: chunked\r\n", "-1\r\n"+second),
			with("overflowing chunk size", "Transfer-Encoding: chunked\r\n", "ffffffffffffffff1\r\n"+second),
		},
		[]request{
			// net/http replaces a fold by a space, as RFC 9112 (5.2) allows: it may then be
			// taken, but is never two headers or two requests.
			{name: "folded header", raw: s.post(json+"X-A: b\r\n c\r\n"+length, s.Body), fine: true},
			{name: "folded with a tab", raw: s.post(json+"X-A: b\r\n\tc\r\n"+length, s.Body), fine: true},
			with("folded length", "Content-Length: 1\r\n 0\r\n", second),
			with("folded coding", "Transfer-Encoding:\r\n chunked\r\n"+length, chunk+second),
			with("space in a header's name", "X A: b\r\n"+length, s.Body),
			with("no colon", "X-A b\r\n"+length, s.Body),
			with("empty name", ": b\r\n"+length, s.Body),
			with("zero byte in a value", "X-A: b\x00c\r\n"+length, s.Body),
			with("carriage return in a value", "X-A: b\rc\r\n"+length, s.Body),
			with("two content types", "Content-Type: text/plain\r\n"+length, s.Body),
			with("coded body", "Content-Encoding: gzip\r\n"+length, s.Body),
			with("two codings", "Content-Encoding: identity\r\nContent-Encoding: gzip\r\n"+length, s.Body),
			with("strange expectation", "Expect: 200-ok\r\n"+length, s.Body),
			with("upgrade", "Connection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"+length, s.Body),
			with("two credentials", "Authorization: Bearer a\r\nAuthorization: Bearer b\r\n"+length, s.Body),
			with("a header of 100 KiB", "X-A: "+strings.Repeat("b", 100<<10)+"\r\n"+length, s.Body),
			with("twenty thousand headers", strings.Repeat("X-A: b\r\n", 20_000)+length, s.Body),
			with("shorter than said", "Content-Length: 4000000\r\n", s.Body),
		},
		[]request{
			line("another version", "POST "+s.Path+" HTTP/3.0"),
			line("no version", "POST "+s.Path),
			line("lower-case version", "POST "+s.Path+" http/1.1"),
			line("absolute target", "POST http://elsewhere.example"+s.Path+" HTTP/1.1"),
			line("target of another scheme", "POST file:///etc/passwd HTTP/1.1"),
			line("star", "OPTIONS * HTTP/1.1"),
			line("CONNECT", "CONNECT elsewhere.example:443 HTTP/1.1"),
			line("TRACE", "TRACE "+s.Path+" HTTP/1.1"),
			line("other method", "PUT "+s.Path+" HTTP/1.1"),
			line("lower-case method", "post "+s.Path+" HTTP/1.1"),
			line("method with a space", "PO ST "+s.Path+" HTTP/1.1"),
			line("climbing", "POST /aip/v1/x/../.."+s.Path+" HTTP/1.1"),
			line("escaped climbing", "POST /aip/%2e%2e"+s.Path+" HTTP/1.1"),
			line("two slashes", "POST /"+s.Path+" HTTP/1.1"),
			line("escaped zero", "POST "+s.Path+"%00 HTTP/1.1"),
			line("broken escape", "POST "+s.Path+"%zz HTTP/1.1"),
			line("backslash", "POST "+strings.ReplaceAll(s.Path, "/", `\`)+" HTTP/1.1"),
			line("fragment", "POST "+s.Path+"#x HTTP/1.1"),
			line("line of 200 KiB", "POST "+s.Path+"?"+strings.Repeat("a", 200<<10)+" HTTP/1.1"),
			{name: "no host", raw: "POST " + s.Path + " HTTP/1.1\r\n" + json + length + "\r\n" + s.Body},
			{name: "two hosts", raw: "POST " + s.Path + " HTTP/1.1\r\nHost: a\r\nHost: b\r\n" + json + length + "\r\n" + s.Body},
			{name: "odd host", raw: "POST " + s.Path + " HTTP/1.1\r\nHost: a b\r\n" + json + length + "\r\n" + s.Body},
			{name: "TLS hello", raw: "\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03" + strings.Repeat("\x00", 160)},
			{name: "HTTP/2 preface", raw: "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + strings.Repeat("\x00", 9)},
			{name: "nothing but line breaks", raw: strings.Repeat("\r\n", 100)},
			{name: "bytes", raw: strings.Repeat("\xff\xfe\x00", 1000)},
		},
	)
}

// patience bounds one request of the table; every surface must end it earlier.
const patience = 45 * time.Second

// Requests sends the table. It fails when a request succeeds, when more answers come
// than requests were sent, and when the surface keeps a connection for ever.
func Requests(t *testing.T, s Surface) {
	t.Helper()
	all := s.requests()
	if len(all) < 50 {
		t.Fatalf("the table has %d requests", len(all))
	}
	for _, r := range all {
		t.Run(strings.ReplaceAll(r.name, "/", " "), func(t *testing.T) {
			statuses := s.send(t, r.raw)
			if len(statuses) > 1 {
				t.Errorf("%d answers came: %v", len(statuses), statuses)
			}
			for _, status := range statuses {
				if !r.fine && status < 400 {
					t.Errorf("it was answered with %d", status)
				}
			}
		})
	}
}

// send writes a request, ends the writing side, and reads every answer until the
// surface closes. No answer at all is a refusal too.
func (s Surface) send(t *testing.T, raw string) []int {
	t.Helper()
	conn, err := net.DialTimeout("tcp", s.Addr, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	wrote := make(chan struct{})
	go func() {
		defer close(wrote)
		_, _ = io.WriteString(conn, raw) // the surface may close before it has read all of it
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	defer func() { <-wrote }()
	var statuses []int
	for reader := bufio.NewReader(conn); ; {
		resp, err := http.ReadResponse(reader, nil)
		if err != nil {
			if timed, ok := err.(net.Error); ok && timed.Timeout() {
				t.Error("the surface kept the connection")
			}
			return statuses
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		statuses = append(statuses, resp.StatusCode)
	}
}
