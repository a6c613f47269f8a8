package admission_test

import (
	"reflect"
	"testing"

	"github.com/aipfleet/aipfleet/pkg/admission"
)

// FuzzRelease_G33_WhatIsAcceptedIsWrittenBackTheSame: a release that the strict
// gate lets in means the same after a round trip, so nothing hides in its spelling.
func FuzzRelease_G33_WhatIsAcceptedIsWrittenBackTheSame(f *testing.F) {
	f.Add([]byte(releaseYAML))
	f.Add([]byte(`{"type":{"id":"ctype_a","name":"a"},"owner":"o","version":"1.10","release_sequence":1,"aip_versions":["1.0"],"artifact":{"path":"artifact"}}`))
	f.Add([]byte("owner: *x"))
	f.Add([]byte("!!binary aGk="))
	f.Fuzz(func(t *testing.T, data []byte) {
		first, err := admission.ParseRelease(data)
		if err != nil {
			return
		}
		text, err := first.YAML()
		if err != nil {
			t.Fatal(err)
		}
		second, err := admission.ParseRelease(text)
		if err != nil || !reflect.DeepEqual(first, second) {
			t.Errorf("%v\nfirst  %+v\nsecond %+v\n%s", err, first, second, text)
		}
	})
}

// FuzzArchive_G35_OnlyWhatWasWrittenReadsBack: whatever archive is accepted is the
// byte-exact archive of the package it gives.
func FuzzArchive_G35_OnlyWhatWasWrittenReadsBack(f *testing.F) {
	f.Add(openPackage(f, writeFiles(f, baseFiles())).Archive())
	f.Fuzz(func(t *testing.T, data []byte) {
		p, found := admission.ReadArchive(data, admission.Limits{})
		if len(found) > 0 {
			return
		}
		if string(p.Archive()) != string(data) {
			t.Error("an accepted archive is written differently")
		}
	})
}
