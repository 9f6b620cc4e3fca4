package httpapi

import (
	"crypto/rand"
	"net/http"
)

// maxRequestID is the longest id of a request that is taken over.
const maxRequestID = 64

// requestID is the caller's own id of the request if it is a plain word, so that
// one id follows a request through several systems; else a new one.
func requestID(r *http.Request) string {
	if id := r.Header.Get("Mayfly-Request"); plainWord(id) {
		return id
	}
	return rand.Text()[:20]
}

func plainWord(s string) bool {
	if s == "" || len(s) > maxRequestID {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return true
}
