package drain

import "testing"

// TestLeave_G37_AShareIsRoundedDownAndAtLeastOne is the table of --max-unavailable.
func TestLeave_G37_AShareIsRoundedDownAndAtLeastOne(t *testing.T) {
	for _, c := range []struct {
		text    string
		n, want int
	}{
		{"1", 4, 1}, {"9", 4, 9}, {"25%", 4, 1}, {"25%", 7, 1}, {"25%", 8, 2}, {"25%", 3, 1}, {"1%", 50, 1}, {"100%", 4, 4}, {"50%", 0, 1},
	} {
		if got, err := leave(c.text, c.n); err != nil || got != c.want {
			t.Errorf("%s of %d is %d, %v, want %d", c.text, c.n, got, err, c.want)
		}
	}
	for _, text := range []string{"0", "-1", "0%", "101%", "1.5", "%", "", "1 %", "1%%"} {
		if got, err := leave(text, 4); err == nil {
			t.Errorf("%q is %d", text, got)
		}
	}
}
