package gateway

import (
	"context"
	"net/http"
	"strings"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Identity is who is asking, proved.
type Identity struct {
	Principal string
	Tenant    fleet.TenantID
}

// Authenticator proves who presents a bearer credential. A credential that is not
// of its kind is (Identity{}, false, nil); one that is and does not hold is an error.
type Authenticator interface {
	Authenticate(ctx context.Context, credential string) (identity Identity, mine bool, err error)
}

// CodeCredential is the code of every refused credential; the answer is status 401
// and never says which part was wrong to whom.
const CodeCredential = "auth.credential"

func credentialError(why string) *fleet.Error {
	return fleet.Errorf(fleet.Denied, CodeCredential, "the credential is not accepted").Because("%s", why).
		Advise("send a valid token as Authorization: Bearer …")
}

// maxCredentialBytes is above any sensible JWT.
const maxCredentialBytes = 16 << 10

// authenticate proves the request's bearer credential by the first authenticator
// whose kind it is.
func authenticate(r *http.Request, by []Authenticator) (Identity, error) {
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return Identity{}, credentialError("there is none, or more than one")
	}
	scheme, credential, found := strings.Cut(values[0], " ")
	if !found || !strings.EqualFold(scheme, "Bearer") || credential == "" || len(credential) > maxCredentialBytes {
		return Identity{}, credentialError("it is not a bearer token")
	}
	for _, a := range by {
		identity, mine, err := a.Authenticate(r.Context(), credential)
		if err != nil {
			return Identity{}, err
		}
		if mine {
			return identity, nil
		}
	}
	return Identity{}, credentialError("nobody here issued it")
}

// NewIdentity checks the parts of an identity.
func NewIdentity(principal, tenant string) (Identity, error) {
	id, err := fleet.ParseTenantID(tenant)
	if err != nil {
		return Identity{}, err
	}
	if principal == "" || len(principal) > 256 || fleet.Printable(principal, 256) != principal {
		return Identity{}, fleet.Invalidf("auth.principal", "the principal needs 1..256 printable bytes")
	}
	return Identity{Principal: principal, Tenant: id}, nil
}
