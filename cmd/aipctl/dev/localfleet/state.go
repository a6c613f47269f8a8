package localfleet

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// state is what the directory remembers between two calls.
type state struct {
	Format    int                `json:"format"`
	CreatedAt time.Time          `json:"created_at"`
	Ports     Ports              `json:"ports"`
	Hosts     int                `json:"hosts"`
	Done      map[string]bool    `json:"done"` // steps of the release that need no repeat
	Processes map[string]Process `json:"processes"`
}

// stateFormat grows when an older program could misread the file.
const stateFormat = 1

// Steps that are done once in a fleet's life.
const (
	stepDatabase = "database"
	stepTrusted  = "trusted"
	stepPacked   = "packed"
	stepAdmitted = "admitted"
	stepPromoted = "promoted"
)

func (p Place) readState() (state, error) {
	data, err := os.ReadFile(p.stateFile())
	if errors.Is(err, fs.ErrNotExist) {
		return state{}, fleet.Errorf(fleet.NotFound, "dev.none", "there is no fleet in %s", p.dir).
			Advise("aipctl dev up --dir %s", p.dir)
	}
	if err != nil {
		return state{}, unavailable("dev.state", "the record of the fleet cannot be read", err)
	}
	var s state
	if err := json.Unmarshal(data, &s); err != nil || s.Format != stateFormat {
		return state{}, unavailable("dev.state", "the record "+p.stateFile()+" is not one of this program", err).
			Advise("stop its processes by hand, then remove the directory")
	}
	return s, nil
}

func (p Place) writeState(s state) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return unavailable("dev.state", "the record of the fleet cannot be written", err)
	}
	return writeFile(p.stateFile(), append(data, '\n'), 0o600)
}

// lock keeps two commands from changing one fleet at once. The lock ends with the
// process at the latest.
func (p Place) lock() (release func(), err error) {
	f, err := os.OpenFile(p.lockFile(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, unavailable("dev.lock", "the fleet's directory cannot be locked", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fleet.Errorf(fleet.Conflict, "dev.busy", "another command is changing the fleet in %s", p.dir).
			Advise("wait until it has ended, then repeat")
	}
	return func() { _ = f.Close() }, nil
}
