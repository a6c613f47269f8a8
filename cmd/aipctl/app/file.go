package app

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// readBounded reads a regular file of at most limit bytes.
func readBounded(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s is larger than %d bytes", path, limit)
	}
	return data, err
}

// ReadInput reads a file of at most limit bytes, or stdin for "-".
func (a *App) ReadInput(path string, limit int64) ([]byte, error) {
	if path != "-" {
		data, err := readBounded(path, limit)
		if err != nil {
			return nil, Usagef("input.file", "%s cannot be read", path).Because("%v", err)
		}
		return data, nil
	}
	data, err := io.ReadAll(io.LimitReader(a.In, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("it is larger than %d bytes", limit)
	}
	if err != nil {
		return nil, Usagef("input.stdin", "the standard input cannot be read").Because("%v", err)
	}
	return data, nil
}

// writeReplace writes a file beside path and renames it over it.
func writeReplace(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".aipctl-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// yamlError shortens the parser's message to one line.
func yamlError(err error) string {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	return strings.Join(strings.Fields(text), " ")
}
