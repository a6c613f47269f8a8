package admission_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"math/big"
	"net/url"
	"testing"
	"time"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	bundlepb "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	commonpb "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	dssepb "github.com/sigstore/protobuf-specs/gen/pb-go/dsse"
	rekorpb "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/testing/ca"
	"github.com/sigstore/sigstore-go/pkg/tlog"
	"github.com/sigstore/sigstore/pkg/signature"
	sigdsse "github.com/sigstore/sigstore/pkg/signature/dsse"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/aipfleet/aipfleet/pkg/admission"
)

const (
	ciIssuer  = "https://login.example"
	ciSubject = "https://ci.example/desk/release.yml@refs/tags/v1.0.0"
)

// cloud is a whole Sigstore in memory: sigstore-go's virtual log and timestamp
// authority, and a certificate authority of our own that names whom it is told to.
type cloud struct {
	t            testing.TB
	now          time.Time
	virtual      *ca.VirtualSigstore
	rootCert     *x509.Certificate
	intermediate *x509.Certificate
	issuerKey    *ecdsa.PrivateKey
	from, until  time.Time // window of the certificate authority
}

func newCloud(t testing.TB) *cloud {
	t.Helper()
	c := &cloud{t: t, now: time.Now()}
	c.from, c.until = c.now.Add(-time.Hour), c.now.Add(time.Hour)
	var err error
	c.virtual, err = ca.NewVirtualSigstore()
	must(t, err)
	var rootKey *ecdsa.PrivateKey
	c.rootCert, rootKey, err = ca.GenerateRootCa()
	must(t, err)
	c.intermediate, c.issuerKey, err = ca.GenerateFulcioIntermediate(c.rootCert, rootKey)
	must(t, err)
	return c
}

// trusted is the cloud as trusted_root.json.
func (c *cloud) trusted() any {
	logs := map[string]*root.TransparencyLog{}
	for id, l := range c.virtual.RekorLogs() {
		raw, err := hex.DecodeString(id)
		must(c.t, err)
		l.ID = raw
		logs[id] = l
	}
	fulcio := &root.FulcioCertificateAuthority{
		Root: c.rootCert, Intermediates: []*x509.Certificate{c.intermediate}, ValidityPeriodStart: c.from, ValidityPeriodEnd: c.until, URI: "https://ca.example",
	}
	tr, err := root.NewTrustedRoot(root.TrustedRootMediaType01, []root.CertificateAuthority{fulcio}, nil, c.virtual.TimestampingAuthorities(), logs)
	must(c.t, err)
	raw, err := tr.MarshalJSON()
	must(c.t, err)
	var doc any
	must(c.t, json.Unmarshal(raw, &doc))
	return doc
}

// leaf is a short-lived certificate.
type leaf struct {
	subject, issuer string
	from            time.Duration // from now
	life            time.Duration
	also            string // a second subject
}

func (c *cloud) issue(l leaf) (*x509.Certificate, *ecdsa.PrivateKey) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(c.t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7), NotBefore: c.now.Add(l.from), NotAfter: c.now.Add(l.from + l.life),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
		ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 1}, Value: []byte(l.issuer)}},
	}
	for _, s := range []string{l.subject, l.also} {
		if s == "" {
			continue
		}
		u, err := url.Parse(s)
		must(c.t, err)
		template.URIs = append(template.URIs, u)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, c.intermediate, key.Public(), c.issuerKey)
	must(c.t, err)
	cert, err := x509.ParseCertificate(der)
	must(c.t, err)
	return cert, key
}

// signed is a bundle in the making, for attacks to bend.
type signed struct {
	cloud    *cloud
	cert     *x509.Certificate
	envelope *dsse.Envelope
	sig      []byte
	bundle   *bundlepb.Bundle
}

// honest is the certificate of the desk's own builds.
func honest() leaf {
	return leaf{subject: ciSubject, issuer: ciIssuer, from: -time.Minute, life: 10 * time.Minute}
}

// attest signs a statement with a certificate, without log and timestamp.
func (c *cloud) attest(l leaf, statement string) *signed {
	cert, key := c.issue(l)
	signer, err := signature.LoadECDSASigner(key, crypto.SHA256)
	must(c.t, err)
	wrapper, err := dsse.NewEnvelopeSigner(&sigdsse.SignerAdapter{SignatureSigner: signer, Pub: key.Public()})
	must(c.t, err)
	envelope, err := wrapper.SignPayload(context.Background(), admission.PayloadInToto, []byte(statement))
	must(c.t, err)
	sig, err := base64.StdEncoding.DecodeString(envelope.Signatures[0].Sig)
	must(c.t, err)
	return &signed{cloud: c, cert: cert, envelope: envelope, sig: sig, bundle: &bundlepb.Bundle{
		MediaType: "application/vnd.dev.sigstore.bundle.v0.3+json",
		VerificationMaterial: &bundlepb.VerificationMaterial{
			Content:                   &bundlepb.VerificationMaterial_Certificate{Certificate: &commonpb.X509Certificate{RawBytes: cert.Raw}},
			TimestampVerificationData: &bundlepb.TimestampVerificationData{},
		},
		Content: &bundlepb.Bundle_DsseEnvelope{DsseEnvelope: &dssepb.Envelope{
			Payload: []byte(statement), PayloadType: admission.PayloadInToto, Signatures: []*dssepb.Signature{{Sig: sig}},
		}},
	}}
}

// entry is a log's entry about a bundle, seen some time from now.
func (s *signed) entry(in *cloud, after time.Duration) *rekorpb.TransparencyLogEntry {
	at := in.now.Add(after).Unix()
	made, err := in.virtual.GenerateTlogEntry(s.cert, s.envelope, s.sig, at, true)
	must(in.t, err)
	tle := made.TransparencyLogEntry()
	set, err := in.virtual.RekorSignPayload(tlog.RekorPayload{
		LogID: hex.EncodeToString(tle.GetLogId().GetKeyId()), IntegratedTime: at, LogIndex: tle.GetLogIndex(), Body: base64.StdEncoding.EncodeToString(tle.GetCanonicalizedBody()),
	})
	must(in.t, err)
	tle.KindVersion = &rekorpb.KindVersion{Kind: "dsse", Version: "0.0.1"}
	tle.InclusionPromise = &rekorpb.InclusionPromise{SignedEntryTimestamp: set}
	return tle
}

func (s *signed) logged(entries ...*rekorpb.TransparencyLogEntry) *signed {
	s.bundle.VerificationMaterial.TlogEntries = append(s.bundle.VerificationMaterial.TlogEntries, entries...)
	return s
}

// stamped adds a timestamp by a cloud's authority over a signature.
func (s *signed) stamped(by *cloud, over []byte) *signed {
	raw, err := by.virtual.TimestampResponse(over)
	must(by.t, err)
	data := s.bundle.VerificationMaterial.TimestampVerificationData
	data.Rfc3161Timestamps = append(data.Rfc3161Timestamps, &commonpb.RFC3161SignedTimestamp{SignedTimestamp: raw})
	return s
}

func (s *signed) json() string {
	raw, err := protojson.Marshal(s.bundle)
	must(s.cloud.t, err)
	return string(raw)
}

// newCloudBench is a bench whose provenance comes from a build that signs with
// short-lived certificates.
func newCloudBench(t testing.TB) *bench {
	t.Helper()
	c := newCloud(t)
	b := newBenchAt(t, c.now.Add(2*time.Minute).UTC())
	b.cloud = c
	b.policy["roots"] = []any{object{"id": "cloud", "trusted_root": c.trusted(), "log_entries": 1, "timestamps": 2, "signed_timestamps": 1, "inclusion_proofs": true}}
	b.policy["identities"] = []any{object{"id": "ci", "root": "cloud", "issuer": ciIssuer, "subject": "https://ci.example/desk/release.yml@refs/tags/v*"}}
	rule := b.policy["types"].([]any)[0].(object)
	rule["signers"] = append(rule["signers"].([]any), "ci")
	b.rule("provenance")["signers"] = []any{"ci"}
	b.rule("provenance")["builders"] = []any{object{"signer": "ci", "builder_id": "https://builds.example/desk"}}
	b.write("provenance", b.build(honest()).json())
	clear(b.touched)
	return b
}

// build is the genuine provenance, signed by a certificate, logged and stamped.
func (b *bench) build(l leaf) *signed {
	s := b.cloud.attest(l, b.genuine("provenance"))
	return s.logged(s.entry(b.cloud, time.Minute)).stamped(b.cloud, s.sig)
}

func (b *bench) root() object { return b.policy["roots"].([]any)[0].(object) }
