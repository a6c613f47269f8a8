package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"sync"
	"time"
)

// book is a file of lines that are only ever appended.
type book struct {
	path string
	now  func() time.Time
	mu   sync.Mutex
}

// note is one line: a text, or that an earlier one is struck out.
type note struct {
	Key    string    `json:"key"`
	Text   string    `json:"text,omitempty"`
	Strike string    `json:"strike,omitempty"` // key of the note that is struck out
	At     time.Time `json:"at"`
}

// write appends a note; the same key again gives the note that is there.
func (b *book) write(key, text string) (note, error) {
	return b.append(note{Key: key, Text: text})
}

// strike strikes a note out.
func (b *book) strike(key, of string) (note, error) {
	return b.append(note{Key: key, Strike: of})
}

func (b *book) append(n note) (note, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	lines, err := b.lines()
	if err != nil {
		return n, err
	}
	for _, have := range lines {
		if have.Key == n.Key {
			return have, nil
		}
	}
	n.At = b.now().UTC()
	line, err := json.Marshal(n)
	if err != nil {
		return n, err
	}
	f, err := os.OpenFile(b.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return n, err
	}
	// The first line break ends a line that a crash has torn.
	_, err = f.Write([]byte("\n" + string(line) + "\n"))
	return n, errors.Join(err, f.Sync(), f.Close())
}

// find looks for the note of a key.
func (b *book) find(key string) (note, bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	lines, err := b.lines()
	for _, n := range lines {
		if n.Key == key {
			return n, true, nil
		}
	}
	return note{}, false, err
}

// notes lists the texts that are not struck out.
func (b *book) notes() ([]string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	lines, err := b.lines()
	struck := map[string]bool{}
	for _, n := range lines {
		struck[n.Strike] = true
	}
	texts := []string{}
	for _, n := range lines {
		if n.Text != "" && !struck[n.Key] {
			texts = append(texts, n.Text)
		}
	}
	return texts, err
}

func (b *book) lines() ([]note, error) {
	f, err := os.Open(b.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	var all []note
	for scan := bufio.NewScanner(f); scan.Scan(); {
		var n note
		if json.Unmarshal(scan.Bytes(), &n) == nil { // a torn last line was never acknowledged
			all = append(all, n)
		}
	}
	return all, nil
}
