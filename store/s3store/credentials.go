package s3store

import (
	"errors"

	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/mayflyhq/mayfly"
)

// Credentials are what requests are signed with. The zero Credentials are taken
// from the environment: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, where
// there is one, AWS_SESSION_TOKEN.
type Credentials struct {
	Key     mayfly.Secret // not secret by itself, but of no use in a log either
	Secret  mayfly.Secret
	Session mayfly.Secret
}

// signer is the library's view of the credentials.
func (c Credentials) signer() (*credentials.Credentials, error) {
	if c == (Credentials{}) {
		env := credentials.NewEnvAWS()
		if found, err := env.GetWithContext(nil); err != nil || found.AccessKeyID == "" || found.SecretAccessKey == "" {
			return nil, mayfly.Wrap(mayfly.Invalid, errors.Join(errors.New("there are no credentials for S3"), err),
				"name them in the configuration, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
		}
		return env, nil
	}
	if c.Key == "" || c.Secret == "" {
		return nil, mayfly.Errorf(mayfly.Invalid, "half of the credentials for S3 is missing").WithHint("give both the access key and its secret")
	}
	return credentials.NewStaticV4(c.Key.Reveal(), c.Secret.Reveal(), c.Session.Reveal()), nil
}
