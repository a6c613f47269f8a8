package fleet

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// parsers lists each kind of identity with its parser, by a sample.
func parsers() map[string]func(string) (string, error) {
	return map[string]func(string) (string, error){
		"ctype_":     func(s string) (string, error) { id, err := ParseTypeID(s); return id.String(), err },
		"cver_":      func(s string) (string, error) { id, err := ParseVersionID(s); return id.String(), err },
		"cinst_":     func(s string) (string, error) { id, err := ParseInstanceID(s); return id.String(), err },
		"crepl_":     func(s string) (string, error) { id, err := ParseReplicaID(s); return id.String(), err },
		"act_":       func(s string) (string, error) { id, err := ParseActionID(s); return id.String(), err },
		"msg_":       func(s string) (string, error) { id, err := ParseMessageID(s); return id.String(), err },
		"evt_":       func(s string) (string, error) { id, err := ParseEventID(s); return id.String(), err },
		"appr_":      func(s string) (string, error) { id, err := ParseApprovalID(s); return id.String(), err },
		"txn_":       func(s string) (string, error) { id, err := ParseTransactionID(s); return id.String(), err },
		"jrnl_":      func(s string) (string, error) { id, err := ParseJournalID(s); return id.String(), err },
		"capability": func(s string) (string, error) { id, err := ParseCapabilityID(s); return id.String(), err },
		"tenant":     func(s string) (string, error) { id, err := ParseTenantID(s); return id.String(), err },
	}
}

func TestID_G40_PrefixedIdentitiesAreParsedNotRepaired(t *testing.T) {
	for prefix, parse := range parsers() {
		if !strings.HasSuffix(prefix, "_") {
			continue
		}
		for _, good := range []string{"a", "A.b_C-9", strings.Repeat("x", 96)} {
			if got, err := parse(prefix + good); err != nil || got != prefix+good {
				t.Errorf("%s%s: %q, %v", prefix, good, got, err)
			}
		}
		for _, bad := range []string{
			"", prefix, strings.ToUpper(prefix) + "a", " " + prefix + "a", prefix + "a ", prefix + "a\n", prefix + "ä",
			prefix + "a/b", prefix + "a:b", prefix + "a\x00", prefix + strings.Repeat("x", 97), "x" + prefix + "a",
		} {
			got, err := parse(bad)
			if !Is(err, Invalid) || got != "" {
				t.Errorf("%q was parsed as %q (%v)", bad, got, err)
			}
		}
	}
}

func TestID_G40_CapabilityAndTenantLimits(t *testing.T) {
	capability, tenant := parsers()["capability"], parsers()["tenant"]
	for text, want := range map[string][2]bool{
		"desk:open":              {true, true},
		"a b":                    {false, true},
		"Müller & Söhne":         {false, true},
		strings.Repeat("x", 256): {true, true},
		strings.Repeat("x", 257): {false, false},
		"":                       {false, false},
		"a\tb":                   {false, false},
		"a\u0085b":               {false, false},
		"bad\xff":                {false, false},
		"\x7f":                   {false, false},
	} {
		_, cErr := capability(text)
		_, tErr := tenant(text)
		if (cErr == nil) != want[0] || (tErr == nil) != want[1] {
			t.Errorf("%q: capability %v, tenant %v, want %v", text, cErr, tErr, want)
		}
	}
}

func TestID_G40_JSONRoundTripAndRefusal(t *testing.T) {
	type doc struct {
		Action ActionID         `json:"action"`
		By     map[TenantID]int `json:"by"`
		None   ReplicaID        `json:"none"`
	}
	var d doc
	if err := json.Unmarshal([]byte(`{"action":"act_1","by":{"acme":2},"none":""}`), &d); err != nil {
		t.Fatal(err)
	}
	if d.Action.String() != "act_1" || !d.None.IsZero() || len(d.By) != 1 {
		t.Errorf("decoded %+v", d)
	}
	raw, err := json.Marshal(d)
	if err != nil || string(raw) != `{"action":"act_1","by":{"acme":2},"none":""}` {
		t.Errorf("encoded %s, %v", raw, err)
	}
	if err := json.Unmarshal([]byte(`{"action":"crepl_1"}`), &d); !Is(err, Invalid) {
		t.Errorf("a replica id in place of an action id: %v", err)
	}
}

// A refusal shows a hostile identity without its control characters.
func TestID_G40_RefusalIsPrintable(t *testing.T) {
	_, err := ParseActionID("\x1b[31mact_\u202e" + strings.Repeat("x", 500))
	if err == nil || strings.ContainsAny(err.Error(), "\x1b\u202e") || len(err.Error()) > 400 {
		t.Errorf("refused with %q", err)
	}
}

func TestID_G18_MintedIdentitiesAreOrderedAndUnique(t *testing.T) {
	at := time.UnixMilli(1_900_000_000_000)
	seen := map[string]bool{}
	for range 2000 {
		id := NewActionID(at).String()
		if seen[id] || len(id) != len("act_")+32 || id[4+12] != '7' {
			t.Fatalf("minted %s", id)
		}
		seen[id] = true
	}
	if early, late := NewActionID(at), NewActionID(at.Add(time.Millisecond)); early.String() >= late.String() {
		t.Errorf("%s is not before %s", early, late)
	}
	for _, id := range []string{NewMessageID(at).String(), NewEventID(at).String(), NewJournalID(at).String(), NewVersionID(at).String()} {
		if parse := parsers()[id[:strings.Index(id, "_")+1]]; parse == nil {
			t.Errorf("%s has no parser", id)
		} else if _, err := parse(id); err != nil {
			t.Error(err)
		}
	}
}

// FuzzID_G40 holds every parser to its word: what it accepts comes back unchanged,
// within its limits, and is accepted again from JSON.
func FuzzID_G40(f *testing.F) {
	for _, seed := range []string{"act_1", "acme", "desk:open", "", "act_", "crepl_\x00", "ä", strings.Repeat("a", 300)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for kind, parse := range parsers() {
			got, err := parse(s)
			if err != nil {
				if !Is(err, Invalid) || CodeOf(err) == "" {
					t.Fatalf("%s refused %q with %v", kind, s, err)
				}
				continue
			}
			if got != s || len(s) == 0 || len(s) > 256 || strings.ContainsAny(s, "\x00\n\r\t\x1b") {
				t.Fatalf("%s accepted %q as %q", kind, s, got)
			}
		}
	})
}
