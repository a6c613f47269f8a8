package admission

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/aipfleet/aipfleet/pkg/envelope"
)

// scanners reads the documents that scanners write, by format.
func scanners() map[string]func(json.RawMessage) ([]vulnerability, error) {
	return map[string]func(json.RawMessage) ([]vulnerability, error){
		"grype": readGrype, "trivy": readTrivy, "osv": readOSV,
	}
}

// ScanFormat recognises a scanner's document; "" when it is none that is known.
func ScanFormat(report json.RawMessage) string {
	for _, name := range []string{"grype", "trivy", "osv"} {
		if _, err := scanners()[name](report); err == nil {
			return name
		}
	}
	return ""
}

var errOtherDocument = errors.New("it lacks what marks such a report")

type grypeReport struct {
	Descriptor struct {
		Name string `json:"name"`
	} `json:"descriptor"`
	Matches *[]struct {
		Vulnerability struct {
			ID       string `json:"id"`
			Severity string `json:"severity"`
		} `json:"vulnerability"`
		Related []struct {
			ID string `json:"id"`
		} `json:"relatedVulnerabilities"`
		Artifact struct {
			Name    string `json:"name"`
			Version string `json:"version"`
			PURL    string `json:"purl"`
		} `json:"artifact"`
	} `json:"matches"`
}

func readGrype(raw json.RawMessage) ([]vulnerability, error) {
	var r grypeReport
	if err := envelope.DecodeStrict(raw, strict(), &r); err != nil {
		return nil, err
	}
	if r.Descriptor.Name != "grype" || r.Matches == nil {
		return nil, errOtherDocument
	}
	var found []vulnerability
	for _, m := range *r.Matches {
		v := vulnerability{
			id: m.Vulnerability.ID, component: named(m.Artifact.Name, m.Artifact.Version), purl: m.Artifact.PURL,
			severity: parseSeverity(m.Vulnerability.Severity),
		}
		for _, a := range m.Related {
			v.aliases = append(v.aliases, a.ID)
		}
		found = append(found, v)
	}
	return found, nil
}

type trivyReport struct {
	SchemaVersion int `json:"SchemaVersion"`
	Results       []struct {
		Vulnerabilities []struct {
			ID       string `json:"VulnerabilityID"`
			Name     string `json:"PkgName"`
			Version  string `json:"InstalledVersion"`
			Severity string `json:"Severity"`
			Package  struct {
				PURL string `json:"PURL"`
			} `json:"PkgIdentifier"`
		} `json:"Vulnerabilities"`
	} `json:"Results"`
}

func readTrivy(raw json.RawMessage) ([]vulnerability, error) {
	var r trivyReport
	if err := envelope.DecodeStrict(raw, strict(), &r); err != nil {
		return nil, err
	}
	if r.SchemaVersion != 2 {
		return nil, errOtherDocument
	}
	var found []vulnerability
	for _, result := range r.Results {
		for _, v := range result.Vulnerabilities {
			found = append(found, vulnerability{
				id: v.ID, component: named(v.Name, v.Version), purl: v.Package.PURL, severity: parseSeverity(v.Severity),
			})
		}
	}
	return found, nil
}

type osvReport struct {
	Results *[]struct {
		Packages []struct {
			Package struct {
				Name    string `json:"name"`
				Version string `json:"version"`
			} `json:"package"`
			Vulnerabilities []osvEntry `json:"vulnerabilities"`
			Groups          []struct {
				IDs         []string `json:"ids"`
				MaxSeverity string   `json:"max_severity"`
			} `json:"groups"`
		} `json:"packages"`
	} `json:"results"`
}

type osvEntry struct {
	ID       string   `json:"id"`
	Aliases  []string `json:"aliases"`
	Specific struct {
		Severity string `json:"severity"`
	} `json:"database_specific"`
}

func readOSV(raw json.RawMessage) ([]vulnerability, error) {
	var r osvReport
	if err := envelope.DecodeStrict(raw, strict(), &r); err != nil {
		return nil, err
	}
	if r.Results == nil {
		return nil, errOtherDocument
	}
	var found []vulnerability
	for _, result := range *r.Results {
		for _, p := range result.Packages {
			worst := map[string]severity{}
			for _, g := range p.Groups {
				for _, id := range g.IDs {
					worst[id] = parseSeverity(g.MaxSeverity)
				}
			}
			for _, o := range p.Vulnerabilities {
				level := parseSeverity(o.Specific.Severity)
				if s, ok := worst[o.ID]; ok {
					level = max(level, s)
				}
				found = append(found, vulnerability{id: o.ID, aliases: o.Aliases, component: named(p.Package.Name, p.Package.Version), severity: level})
			}
		}
	}
	return found, nil
}

func named(name, version string) string {
	return strings.TrimSuffix(name+"@"+version, "@")
}
