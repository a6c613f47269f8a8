package pgcluster

import (
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is the operating system user that runs the server. The zero value is
// the caller itself.
type account struct {
	switched bool
	uid, gid uint32
}

// serverAccount is the caller, or an unprivileged account when the caller is
// root.
func serverAccount() (account, error) {
	if os.Geteuid() != 0 {
		return account{uid: uint32(os.Geteuid()), gid: uint32(os.Getegid())}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUID := strconv.ParseUint(found.Uid, 10, 32)
		gid, errGID := strconv.ParseUint(found.Gid, 10, 32)
		if errUID == nil && errGID == nil && uid != 0 {
			return account{switched: true, uid: uint32(uid), gid: uint32(gid)}, nil
		}
	}
	return account{}, fail(CodeStart, "PostgreSQL does not run as root, and this system has no account to run it",
		errors.New("neither postgres nor nobody exists"), "run as an ordinary user, or add the account postgres")
}

// credential is nil when no switch is needed.
func (a account) credential() *syscall.Credential {
	if !a.switched {
		return nil
	}
	return &syscall.Credential{Uid: a.uid, Gid: a.gid, Groups: []uint32{}}
}

// give hands a file or directory over to the account.
func (a account) give(path string) error {
	if !a.switched {
		return nil
	}
	return os.Chown(path, int(a.uid), int(a.gid))
}

// reaches reports whether the account can pass every directory down to path.
func (a account) reaches(path string) bool {
	if !a.switched {
		return true
	}
	for {
		if !a.passes(path) {
			return false
		}
		parent := filepath.Dir(path)
		if parent == path {
			return true
		}
		path = parent
	}
}

// passes reports whether the account may search the one directory.
func (a account) passes(dir string) bool {
	info, err := os.Stat(dir)
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	mode := info.Mode().Perm()
	switch {
	case stat.Uid == a.uid:
		return mode&0o100 != 0
	case stat.Gid == a.gid:
		return mode&0o010 != 0
	default:
		return mode&0o001 != 0
	}
}
