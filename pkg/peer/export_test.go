package peer

import (
	"net/http"
	"time"
)

// StrictWithin is Strict with another patience.
func StrictWithin(next http.Handler, patience time.Duration) http.Handler {
	return strict{next, patience}
}
