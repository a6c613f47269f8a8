package registrycmd

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	neturl "net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres/migrate"
)

// urlFile is the file with the URL of one login role. A new text waits beside it, as
// NAME.url.new, until the server has its password; one that a broken-off init left is
// offered like the file itself.
type urlFile struct {
	role    string
	path    string
	text    string   // the URL in the file; "" without one
	offers  []string // passwords that the role may have
	chosen  string
	wanted  string // the URL that the file must hold
	created bool   // the waiting file is of this run
}

type urlFiles []*urlFile

// readURLFiles reads what the directory holds, and another database's, and writes nothing.
func readURLFiles(admin, dir, from string) (urlFiles, error) {
	var files urlFiles
	for _, role := range migrate.LoginRoles() {
		name := strings.TrimPrefix(role, "aip_") + ".url"
		f := &urlFile{role: role, path: filepath.Join(dir, name)}
		sources := []string{f.path, f.waiting()}
		if from != "" {
			sources = append(sources, filepath.Join(from, name))
		}
		for _, source := range sources {
			text, err := readURL(source)
			if err != nil {
				return nil, err
			}
			if err := f.offer(text); err != nil {
				return nil, err
			}
			if source == f.path {
				f.text = text
			}
		}
		if err := f.belongs(admin); err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

func (f *urlFile) waiting() string { return f.path + ".new" }

// readURL reads one file; "" when there is none.
func readURL(path string) (string, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", notWritable(err)
	}
	return strings.TrimSpace(string(data)), nil
}

func (f *urlFile) offer(text string) error {
	if text == "" {
		return nil
	}
	password, err := passwordOf(text)
	if err == nil && password != "" {
		f.offers = append(f.offers, password)
	}
	return err
}

// belongs refuses a file of another database: its programs would go on using that one.
func (f *urlFile) belongs(admin string) error {
	if f.text == "" {
		return nil
	}
	have, err := pgx.ParseConfig(f.text)
	if err != nil {
		return app.Usagef("registry.url", "the URL in %s is not well formed", f.path) // the cause would quote it
	}
	want, err := pgx.ParseConfig(admin)
	if err != nil || want.Database == have.Database {
		return nil // the administrator's URL is judged when it is used
	}
	return fleet.Errorf(fleet.Conflict, "registry.url_files", "%s is for the database %s, and this is init for %s", f.path,
		fleet.Printable(have.Database, 64), fleet.Printable(want.Database, 64)).
		Advise("aipctl registry init --urls ANOTHER-DIR --passwords-from %s", filepath.Dir(f.path))
}

func (all urlFiles) offered() map[string][]string {
	offered := map[string][]string{}
	for _, f := range all {
		offered[f.role] = f.offers
	}
	return offered
}

func (all urlFiles) chosen() map[string]string {
	chosen := map[string]string{}
	for _, f := range all {
		chosen[f.role] = f.chosen
	}
	return chosen
}

// choose takes for every role the password that it has; for one that has none the first
// that is offered, or a new one. It refuses when a role has another.
func (all urlFiles) choose(known map[string]migrate.Known) error {
	var unknown []string
	for _, f := range all {
		switch k := known[f.role]; {
		case k.Password != "":
			f.chosen = k.Password
		case k.Taken:
			unknown = append(unknown, f.role)
		case len(f.offers) > 0:
			f.chosen = f.offers[0]
		default:
			f.chosen = newPassword()
		}
	}
	if len(unknown) > 0 {
		return migrate.SharedRoles(unknown...)
	}
	return nil
}

func (all urlFiles) renew() {
	for _, f := range all {
		f.chosen = newPassword()
	}
}

func newPassword() string {
	var random [24]byte
	_, _ = rand.Read(random[:]) // does not fail
	return hex.EncodeToString(random[:])
}

// stage puts every text that is new beside its file. Of two runs for one directory the
// first one's passwords hold, except in a rotation.
func (all urlFiles) stage(admin string, rotate bool) error {
	for _, f := range all {
		if err := f.stage(admin, rotate); err != nil {
			all.discard()
			return err
		}
	}
	return nil
}

func (f *urlFile) stage(admin string, rotate bool) (err error) {
	if f.wanted, err = f.compose(admin); err != nil || f.wanted == f.text {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return notWritable(err)
	}
	if rotate {
		err = replaceFile(f.waiting(), f.wanted)
	} else if err = createFile(f.waiting(), f.wanted); errors.Is(err, fs.ErrExist) {
		return f.join()
	}
	f.created = err == nil
	return err
}

// join takes over what another run has put there since the directory was read, or an
// earlier one left there.
func (f *urlFile) join() error {
	text, err := readURL(f.waiting())
	if err != nil {
		return err
	}
	if text == f.wanted {
		return nil
	}
	password, err := passwordOf(text)
	if err != nil || len(f.offers) > 0 { // what is there was offered, and is not the one
		return errors.Join(err, replaceFile(f.waiting(), f.wanted))
	}
	f.chosen, f.wanted = password, text
	return nil
}

// compose is the file's own URL with the chosen password, or else the administrator's URL
// with the role and it.
func (f *urlFile) compose(admin string) (string, error) {
	base := f.text
	if base == "" {
		base = admin
	}
	u, err := neturl.Parse(base)
	if err != nil || u.Host == "" && u.Scheme == "" {
		return "", app.Usagef("registry.url", "the administrator's URL is not of the form postgres://user:password@host/database")
	}
	if f.text != "" {
		if have, _ := u.User.Password(); have == f.chosen {
			return f.text, nil
		}
		u.User = neturl.UserPassword(u.User.Username(), f.chosen)
	} else {
		u.User = neturl.UserPassword(f.role, f.chosen)
	}
	return u.String(), nil
}

// publish gives every file the text that is true now.
func (all urlFiles) publish() error {
	for _, f := range all {
		if f.wanted != f.text {
			if err := replaceFile(f.path, f.wanted); err != nil {
				return err
			}
		}
		if err := os.Remove(f.waiting()); err != nil && !errors.Is(err, os.ErrNotExist) {
			return notWritable(err)
		}
	}
	return nil
}

// discard removes what this run put there and the server does not have.
func (all urlFiles) discard() {
	for _, f := range all {
		if f.created {
			_ = os.Remove(f.waiting()) // one that stays is offered next time, and does no harm
		}
	}
}

// createFile makes a file with its text, or fails with fs.ErrExist.
func createFile(path, text string) error {
	return withTemporary(path, text, func(temporary string) error { return os.Link(temporary, path) })
}

// replaceFile makes a file with its text, in place of one that is there.
func replaceFile(path, text string) error {
	return withTemporary(path, text, func(temporary string) error { return os.Rename(temporary, path) })
}

func withTemporary(path, text string, use func(temporary string) error) error {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return notWritable(err)
	}
	defer func() { _ = os.Remove(file.Name()) }()
	_, err = file.WriteString(text + "\n")
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return notWritable(err)
	}
	if err := use(file.Name()); err != nil {
		return notWritable(err)
	}
	return nil
}

func notWritable(err error) error {
	return fleet.Errorf(fleet.Unavailable, "registry.url_files", "the URL files cannot be kept").Because("%v", err).Caused(err)
}
