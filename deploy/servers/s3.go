package main

import (
	"context"
	"net/http"
	"path/filepath"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

const (
	s3Region = "us-east-1"
	s3Bucket = "mayfly"
)

type s3 struct{}

func (s3) version() string    { return "1.8.0" }
func (s3) clientPort() string { return "s3" }

func (s3) tools() []tool { return nil }

func (s s3) software(in cache) (software, bool) {
	return program{
		name: "versitygw", version: s.version(), pkg: "github.com/versity/versitygw/cmd/versitygw",
		cost: "Go modules from the proxy, then compiling, two to four minutes",
		mod:  text("s3-go.mod"), sum: text("s3-go.sum"),
	}.software(in), true
}

func (s3) allocate(_ options, p *ports) ([]node, error) {
	port, err := p.take("127.0.0.1")
	return []node{{Address: "127.0.0.1", Ports: map[string]int{"s3": port}}}, err
}

func (s3) prepare(_ context.Context, s server, n node, lib string) (command, error) {
	if err := folders(n, "data", "users", "versions"); err != nil {
		return command{}, err
	}
	args := []string{filepath.Join(lib, "versitygw"), "--port", n.at("s3"), "--region", s3Region, "--quiet", "--keep-alive", "--iam-dir", filepath.Join(n.Folder, "users")}
	if s.Secure {
		args = append(args, "--cert", s.pem("certificate"), "--key", s.pem("key"))
	}
	return command{
		Args: append(args, "posix", "--versioning-dir", filepath.Join(n.Folder, "versions"), n.data()),
		Env:  []string{"ROOT_ACCESS_KEY=" + s.Secrets.User, "ROOT_SECRET_KEY=" + s.Secrets.Password},
	}, nil
}

func (s3) endpoint(s server) string {
	if s.Secure {
		return "https://" + s.Nodes[0].at("s3")
	}
	return "http://" + s.Nodes[0].at("s3")
}

// ping lists the buckets, which shows that the server runs and accepts the keys.
func (s3) ping(ctx context.Context, s server, n node) error {
	client, err := s3Client(s, n)
	if err != nil {
		return err
	}
	_, err = client.ListBuckets(ctx)
	return err
}

// settle creates the bucket, so that a node can start at once.
func (s3) settle(ctx context.Context, s server) error {
	client, err := s3Client(s, s.Nodes[0])
	if err != nil {
		return err
	}
	err = client.MakeBucket(ctx, s3Bucket, minio.MakeBucketOptions{Region: s3Region})
	if code := minio.ToErrorResponse(err).Code; code == minio.BucketAlreadyOwnedByYou || code == minio.BucketAlreadyExists {
		return nil // kept from an earlier run
	}
	return err
}

func s3Client(s server, n node) (*minio.Client, error) {
	encrypted, err := s.tls()
	if err != nil {
		return nil, err
	}
	return minio.New(n.at("s3"), &minio.Options{
		Creds: credentials.NewStaticV4(s.Secrets.User, s.Secrets.Password, ""), Secure: s.Secure, Region: s3Region, MaxRetries: 1,
		Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: encrypted},
	})
}

func (k s3) env(s server) []variable {
	list := []variable{
		{"S3", k.endpoint(s)},
		{"S3_REGION", s3Region},
		{"S3_BUCKET", s3Bucket},
		{"S3_KEY", s.Secrets.User},
		{"S3_SECRET", s.Secrets.Password},
	}
	if s.Secure {
		list = append(list, variable{"S3_CA", s.Secrets.Authority})
	}
	return list
}
