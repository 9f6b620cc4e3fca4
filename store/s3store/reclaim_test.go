//go:build servers

package s3store

import (
	"bytes"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/mayflyhq/mayfly"
)

func putPlain() minio.PutObjectOptions { return minio.PutObjectOptions{DisableContentSha256: true} }

func TestUnfinishedUploadsAreReclaimedAfterADay(t *testing.T) {
	s := connect(t, quick(realServer(t)))
	bucket := freshBucket(t, s)
	hot, cold := tier(t, s, TierOptions{Bucket: bucket, Prefix: "hot"}), tier(t, s, TierOptions{Bucket: bucket, Prefix: "cold"})
	for _, begin := range []struct {
		tier *Store
		name string
	}{{hot, hot.freshName(stagedNames)}, {hot, hot.name(freshKey())}, {cold, cold.freshName(stagedNames)}} {
		u, err := begin.tier.begin(t.Context(), "", begin.name, placing{})
		if err != nil {
			t.Fatal(err)
		}
		if err := u.send(t.Context(), payloadOf("a part")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.core.PutObject(t.Context(), bucket, hot.freshName(stagedNames), bytes.NewReader([]byte("x")), 1, "", "", putPlain()); err != nil {
		t.Fatal(err)
	}
	key := freshKey()
	mustPut(t, hot, key, []byte("kept"))
	now := mayfly.InstantOf(time.Now())
	for _, c := range []struct {
		now  mayfly.Instant
		want Reclaimed
	}{
		{now, Reclaimed{}},
		{now.Add(23 * time.Hour), Reclaimed{}},
		{now.Add(25 * time.Hour), Reclaimed{Uploads: 2, Staged: 1}},
		{now.Add(25 * time.Hour), Reclaimed{}},
	} {
		if done, err := hot.Reclaim(t.Context(), c.now); err != nil || done != c.want {
			t.Errorf("at %v: %+v, %v; want %+v", c.now, done, err, c.want)
		}
	}
	if names := leftOver(t, hot); len(names) != 0 {
		t.Errorf("left behind: %q", names)
	}
	if names := leftOver(t, cold); len(names) != 1 {
		t.Errorf("the other tier has %q, want its upload", names)
	}
	wantContent(t, hot, key, []byte("kept"))
}
