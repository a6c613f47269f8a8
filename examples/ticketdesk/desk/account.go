package desk

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Refusals of Open.
var (
	ErrNoToken      = errors.New("no API token was given")
	ErrWrongToken   = errors.New("the API token is not one of this account")
	ErrWrongAccount = errors.New("the store belongs to another account")
)

// accountRecord names whose store a directory is, and which token opens it. Only
// a digest of the token is kept.
type accountRecord struct {
	Account     string `json:"account"`
	TokenDigest string `json:"token_digest"`
}

// claimAccount checks account and token against the store; the first to come
// takes an empty one. The caller holds the lock. An empty account means whatever
// the store says, or the directory's name for a new store.
func claimAccount(dir, account, token string) (string, error) {
	if token == "" {
		return "", ErrNoToken
	}
	path := filepath.Join(dir, "account.json")
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return createAccount(path, account, token)
	}
	if err != nil {
		return "", err
	}
	var record accountRecord
	if err := json.Unmarshal(text, &record); err != nil {
		return "", fmt.Errorf("account.json: %w", err)
	}
	if account != "" && account != record.Account {
		return "", fmt.Errorf("%w: %s, not %s", ErrWrongAccount, record.Account, account)
	}
	if subtle.ConstantTimeCompare([]byte(record.TokenDigest), []byte(digest([]byte(token)))) != 1 {
		return "", ErrWrongToken
	}
	return record.Account, nil
}

func createAccount(path, account, token string) (string, error) {
	if account == "" {
		account = filepath.Base(filepath.Dir(path))
	}
	text, err := json.Marshal(accountRecord{Account: account, TokenDigest: digest([]byte(token))})
	if err != nil {
		return "", err
	}
	return account, writeDurably(path, append(text, '\n'))
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// writeDurably replaces a file as a whole and flushes it.
func writeDurably(path string, text []byte) error {
	next, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.new")
	if err != nil {
		return err
	}
	_, errWrite := next.Write(text)
	if err := errors.Join(errWrite, next.Sync(), next.Close()); err != nil {
		return errors.Join(err, os.Remove(next.Name()))
	}
	if err := os.Rename(next.Name(), path); err != nil {
		return errors.Join(err, os.Remove(next.Name()))
	}
	return syncDir(filepath.Dir(path))
}
