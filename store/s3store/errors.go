package s3store

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"

	"github.com/minio/minio-go/v7"

	"github.com/mayflyhq/mayfly"
)

// answer returns the error response of the server, if err is one.
func answer(err error) (minio.ErrorResponse, bool) {
	var e minio.ErrorResponse
	ok := errors.As(err, &e)
	return e, ok
}

func hasCode(err error, codes ...string) bool {
	e, ok := answer(err)
	if !ok {
		return false
	}
	for _, code := range codes {
		if e.Code == code {
			return true
		}
	}
	return false
}

// isSlowDown reports whether the server asks for fewer requests.
func isSlowDown(err error) bool {
	e, ok := answer(err)
	return ok && (e.StatusCode == http.StatusServiceUnavailable || e.StatusCode == http.StatusTooManyRequests ||
		hasCode(err, "SlowDown", "SlowDownRead", "SlowDownWrite", "Throttling", "ThrottlingException", "RequestLimitExceeded", "RequestThrottled", "ServiceUnavailable"))
}

// isTransient reports whether the same request may succeed next time: the server is
// busy or failed, the connection broke, or bytes were corrupted in transit.
func isTransient(err error) bool {
	var kind *mayfly.Error
	if errors.As(err, &kind) {
		return kind.Kind == mayfly.Unavailable || kind.Kind == mayfly.Corrupt
	}
	e, ok := answer(err)
	switch {
	case !ok:
		return true // no valid response
	case e.StatusCode >= http.StatusInternalServerError && e.StatusCode != http.StatusNotImplemented && e.StatusCode != http.StatusInsufficientStorage,
		e.StatusCode == http.StatusTooManyRequests, e.StatusCode == http.StatusRequestTimeout, isSlowDown(err):
		return true
	}
	return hasCode(err, "InternalError", "RequestTimeout", "RequestError", "OperationAborted", "BadDigest", "IncompleteBody",
		"XAmzContentSHA256Mismatch", "ConditionalRequestConflict")
}

// withKind gives an error of the library its kind, and a hint where the operator
// can fix the cause. An unreachable server is Unavailable.
func withKind(ctx context.Context, err error) error {
	var kind *mayfly.Error
	if err == nil || errors.As(err, &kind) {
		return err
	}
	if ended := ctx.Err(); ended != nil {
		return mayfly.Wrap(mayfly.Unavailable, ended, "")
	}
	e, ok := answer(err)
	if !ok {
		return unanswered(err)
	}
	switch e.Code {
	case "NoSuchKey":
		return mayfly.Wrap(mayfly.NotFound, err, "")
	case "NoSuchBucket":
		return mayfly.Wrap(mayfly.Unavailable, err, "make the bucket, or name another one")
	case "AccessDenied", "AllAccessDisabled", "AccountProblem":
		return mayfly.Wrap(mayfly.Unavailable, err, "the credentials may not do this: they need GetObject, PutObject, DeleteObject, ListBucket, ListBucketMultipartUploads, AbortMultipartUpload and GetBucketVersioning")
	case "NoSuchUpload":
		return mayfly.Wrap(mayfly.Unavailable, err, "")
	case "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "TokenRefreshRequired":
		return mayfly.Wrap(mayfly.Unavailable, err, "check the access key, its secret and the region")
	case "RequestTimeTooSkewed":
		return mayfly.Wrap(mayfly.Unavailable, err, "set the clock of this machine")
	case "InvalidObjectState":
		return mayfly.Wrap(mayfly.Unavailable, err, "the object lies in a class that cannot be read at once; use GLACIER_IR")
	case "InvalidStorageClass":
		return mayfly.Wrap(mayfly.Unsupported, err, "name a storage class that this server has, or none")
	case "InvalidRange":
		return mayfly.Wrap(mayfly.Invalid, err, "")
	case "EntityTooLarge":
		return mayfly.Wrap(mayfly.TooLarge, err, "")
	case "QuotaExceeded", "InsufficientStorage", "XMinioStorageFull", "StorageFull":
		return mayfly.Wrap(mayfly.Full, err, "make room on the S3 server, or raise its quota")
	case "NotImplemented", "MethodNotAllowed", "APINotSupported":
		return mayfly.Wrap(mayfly.Unsupported, err, "")
	}
	switch e.StatusCode {
	case http.StatusNotFound:
		return mayfly.Wrap(mayfly.NotFound, err, "")
	case http.StatusRequestedRangeNotSatisfiable:
		return mayfly.Wrap(mayfly.Invalid, err, "")
	case http.StatusInsufficientStorage:
		return mayfly.Wrap(mayfly.Full, err, "make room on the S3 server")
	case http.StatusNotImplemented, http.StatusMethodNotAllowed:
		return mayfly.Wrap(mayfly.Unsupported, err, "")
	}
	return mayfly.Wrap(mayfly.Unavailable, err, "")
}

// unanswered returns the error of a request without a response. It does not wrap the
// timeout of a try, which a caller would take for the timeout of its own context.
func unanswered(err error) error {
	return mayfly.Errorf(mayfly.Unavailable, "%v", err).WithHint(hintOf(err))
}

// hintOf returns the hint for a server that did not answer.
func hintOf(err error) string {
	if distrusted := (*tls.CertificateVerificationError)(nil); errors.As(err, &distrusted) {
		return "set ca_file to the CA that signed the certificate of the server"
	}
	return ""
}
