//go:build servers

package s3store

import (
	"testing"

	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
)

func TestDriverKeepsItsContractOnBucketsAndOnPrefixes(t *testing.T) {
	o := realServer(t)
	for name, open := range map[string]storetest.Open{
		"s3store on buckets": func(t *testing.T) store.Set {
			s := connect(t, o)
			return store.Set{
				Hot:  tier(t, s, TierOptions{Bucket: freshBucket(t, s)}),
				Cold: tier(t, s, TierOptions{Bucket: freshBucket(t, s), Class: "GLACIER_IR"}),
			}
		},
		"s3store on prefixes": func(t *testing.T) store.Set {
			s := connect(t, o)
			bucket := freshBucket(t, s)
			return store.Set{
				Hot:  tier(t, s, TierOptions{Bucket: bucket, Prefix: "fixture/hot"}),
				Cold: tier(t, s, TierOptions{Bucket: bucket, Prefix: "fixture/cold", Class: "GLACIER_IR"}),
			}
		},
	} {
		t.Run(name, func(t *testing.T) { storetest.Blobs(t, name, open) })
	}
}
