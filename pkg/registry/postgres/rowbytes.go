package postgres

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// row is a composite value as it came over the wire: in the binary form where the
// protocol has it, which costs the server a quarter of the text.
type row = pgtype.UndecodedBytes

// binaryRows asks for results in the binary form; the simple protocol ignores it.
var binaryRows = pgx.QueryResultFormats{pgx.BinaryFormatCode}

// fieldsOf tells the two forms apart: a text begins with a parenthesis, the other with
// the count of columns.
func fieldsOf(r row) fieldReader {
	if len(r) > 0 && r[0] == '(' {
		return &rowReader{text: string(r)}
	}
	p := &byteReader{rest: r}
	p.left = p.int32()
	return p
}

var errRowBytes = errors.New("not the bytes of a row")

// byteReader reads the binary form of a composite value: a count of columns, then each
// with its type, its length and its bytes. The types are those of the columns; a domain
// is written as what it is over.
type byteReader struct {
	rest []byte
	left int
	err  error
}

func (p *byteReader) take(n int) []byte {
	if p.err != nil || n < 0 || n > len(p.rest) {
		p.fail(errRowBytes)
		return nil
	}
	taken := p.rest[:n]
	p.rest = p.rest[n:]
	return taken
}

func (p *byteReader) int32() int {
	if b := p.take(4); b != nil {
		return int(int32(binary.BigEndian.Uint32(b)))
	}
	return 0
}

// column gives the bytes of the next column; a null, which no hot row has, is a failure.
func (p *byteReader) column() []byte {
	p.left--
	p.int32() // its type
	return p.take(p.int32())
}

func (p *byteReader) fail(err error) {
	if p.err == nil {
		p.err = err
	}
}

func (p *byteReader) end() error {
	if p.err == nil && (p.left != 0 || len(p.rest) != 0) {
		p.err = errRowBytes
	}
	return p.err
}

func (p *byteReader) string() string { return string(p.column()) }

func (p *byteReader) int64() int64 {
	b := p.column()
	if len(b) != 8 {
		p.fail(errRowBytes)
		return 0
	}
	return int64(binary.BigEndian.Uint64(b))
}

func (p *byteReader) number(bits int) uint64 {
	n := p.int64()
	if n < 0 || bits == 32 && n>>32 != 0 {
		p.fail(errRowBytes)
		return 0
	}
	return uint64(n)
}

func (p *byteReader) bool() bool {
	b := p.column()
	if len(b) != 1 {
		p.fail(errRowBytes)
		return false
	}
	return b[0] == 1
}

// epoch is what PostgreSQL counts microseconds from.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func (p *byteReader) time() time.Time {
	n := p.int64()
	return time.UnixMicro(epoch.UnixMicro() + n).UTC()
}

// elements calls back for every element of the next column, an array of one dimension.
func (p *byteReader) elements(f func(b []byte)) {
	a := byteReader{rest: p.column()}
	dimensions := a.int32()
	a.take(8) // whether there are nulls, and the type
	count := 0
	if dimensions == 1 {
		count = a.int32()
		a.take(4) // the first index
	}
	for range count {
		b := a.take(a.int32())
		if a.err != nil {
			break
		}
		f(b)
	}
	if a.err != nil || dimensions > 1 || len(a.rest) > 0 {
		p.fail(errRowBytes)
	}
}

func (p *byteReader) array() []string {
	all := []string{}
	p.elements(func(b []byte) { all = append(all, string(b)) })
	return all
}

func (p *byteReader) numbers() []uint32 {
	all := []uint32{}
	p.elements(func(b []byte) {
		if len(b) != 8 {
			p.fail(errRowBytes)
			return
		}
		n := binary.BigEndian.Uint64(b)
		if n>>32 != 0 {
			p.fail(errRowBytes)
		}
		all = append(all, uint32(n))
	})
	return all
}
