package s3store

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"

	"github.com/minio/minio-go/v7"

	"github.com/mayflyhq/mayfly"
)

// answer is what the server said, if err is an answer of the server.
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

// isSlowDown says whether the server wants fewer requests.
func isSlowDown(err error) bool {
	e, ok := answer(err)
	return ok && (e.StatusCode == http.StatusServiceUnavailable || e.StatusCode == http.StatusTooManyRequests ||
		hasCode(err, "SlowDown", "SlowDownRead", "SlowDownWrite", "Throttling", "ThrottlingException", "RequestLimitExceeded", "RequestThrottled", "ServiceUnavailable"))
}

// isPassing says whether the same request may go better next time: the server
// is busy or broken, the wire was cut, or bytes were hurt on the way to it.
func isPassing(err error) bool {
	var kind *mayfly.Error
	if errors.As(err, &kind) {
		return kind.Kind == mayfly.Unavailable || kind.Kind == mayfly.Corrupt
	}
	e, ok := answer(err)
	switch {
	case !ok:
		return true // no answer: the wire, or an answer that is none
	case e.StatusCode >= http.StatusInternalServerError && e.StatusCode != http.StatusNotImplemented && e.StatusCode != http.StatusInsufficientStorage,
		e.StatusCode == http.StatusTooManyRequests, e.StatusCode == http.StatusRequestTimeout, isSlowDown(err):
		return true
	}
	return hasCode(err, "InternalError", "RequestTimeout", "RequestError", "OperationAborted", "BadDigest", "IncompleteBody",
		"XAmzContentSHA256Mismatch", "ConditionalRequestConflict")
}

// kindOf gives an error of the library its kind (contract: what cannot be
// reached is Unavailable), and an operator's mistake its hint.
func kindOf(ctx context.Context, err error) error {
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

// unanswered is what is left of a request that had no answer. The time-out of a
// try is ours: a caller who finds one takes it for his own, and for his item's fault.
func unanswered(err error) error {
	return mayfly.Errorf(mayfly.Unavailable, "%v", err).WithHint(hintOf(err))
}

// hintOf is for a server that did not answer.
func hintOf(err error) string {
	if distrusted := (*tls.CertificateVerificationError)(nil); errors.As(err, &distrusted) {
		return "name the authority that signed the server's certificate"
	}
	return ""
}
