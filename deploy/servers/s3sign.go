package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"time"
)

// signV4 signs a request without body or query by AWS Signature Version 4.
func signV4(r *http.Request, key, secret string, now time.Time) {
	const noBody = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	stamp := now.UTC().Format("20060102T150405Z")
	scope := stamp[:8] + "/" + s3Region + "/s3/aws4_request"
	r.Header.Set("X-Amz-Date", stamp)
	r.Header.Set("X-Amz-Content-Sha256", noBody)

	const signed = "host;x-amz-content-sha256;x-amz-date"
	canonical := strings.Join([]string{
		r.Method, r.URL.EscapedPath(), "",
		"host:" + r.URL.Host, "x-amz-content-sha256:" + noBody, "x-amz-date:" + stamp, "",
		signed, noBody,
	}, "\n")
	hash := sha256.Sum256([]byte(canonical))
	toSign := strings.Join([]string{"AWS4-HMAC-SHA256", stamp, scope, hex.EncodeToString(hash[:])}, "\n")

	derived := []byte("AWS4" + secret)
	for _, part := range []string{stamp[:8], s3Region, "s3", "aws4_request", toSign} {
		mac := hmac.New(sha256.New, derived)
		mac.Write([]byte(part))
		derived = mac.Sum(nil)
	}
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+key+"/"+scope+", SignedHeaders="+signed+", Signature="+hex.EncodeToString(derived))
}
