package e2e

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/client"
)

// kvCalls are the client's ways to use the key-value store. Each creates a namespace of
// its own.
func (c *calls) kvCalls() map[string]func(context.Context) error {
	made := 0
	space := func(ctx context.Context) wire.KVNamespace {
		made++
		n, err := c.ana.CreateKVNamespace(ctx, wire.NewKVNamespace{Name: fmt.Sprintf("calls%d", made), LongestTTL: "10h"})
		if err != nil {
			c.T.Fatal(err)
		}
		return n
	}
	const plain, odd = "user:7", "a key/with\x00\xff"
	all := map[string]func(context.Context) error{
		"createNamespace": func(ctx context.Context) error {
			n := space(ctx)
			if n.LongestTTL != "10h" || len(n.Credentials) != 1 || n.Credentials[0].Key == "" {
				return fmt.Errorf("%+v", n)
			}
			return c.ana.DropKVNamespace(ctx, n.Name)
		},
		"listNamespaces": func(ctx context.Context) error {
			n := space(ctx)
			found, err := c.ana.KVNamespaces(ctx)
			if err == nil && len(found) == 0 {
				err = errors.New("there is none")
			}
			return errors.Join(err, c.ana.DropKVNamespace(ctx, n.Name))
		},
		"describeNamespace": func(ctx context.Context) error {
			n := space(ctx)
			described, err := c.ana.KVNamespace(ctx, n.Name)
			if err == nil && (described.Name != n.Name || described.Entries == nil) {
				err = fmt.Errorf("%+v", described)
			}
			return errors.Join(err, c.ana.DropKVNamespace(ctx, n.Name))
		},
		"dropNamespace": func(ctx context.Context) error {
			n := space(ctx)
			if err := c.ana.DropKVNamespace(ctx, n.Name); err != nil {
				return err
			}
			_, err := c.ana.KVNamespace(ctx, n.Name)
			return refusedAs(err, mayfly.NotFound)
		},
		"addCredential": func(ctx context.Context) error {
			n := space(ctx)
			added, err := c.ana.AddKVCredential(ctx, n.Name)
			if err == nil && added.Key == "" {
				err = fmt.Errorf("%+v", added)
			}
			return errors.Join(err, c.ana.DropKVNamespace(ctx, n.Name))
		},
		"removeCredential": func(ctx context.Context) error {
			n := space(ctx)
			return errors.Join(c.ana.RemoveKVCredential(ctx, n.Name, n.Credentials[0].ID), c.ana.DropKVNamespace(ctx, n.Name))
		},
		"batchKeys": func(ctx context.Context) error {
			n, key, value := space(ctx), plain, "v"
			results, err := c.ana.KVBatch(ctx, n.Name, wire.KVBatch{Ops: []wire.KVOperation{{Op: "set", Key: &key, Value: &value}}})
			if err == nil && (len(results) != 1 || !results[0].Done) {
				err = fmt.Errorf("%+v", results)
			}
			return errors.Join(err, c.ana.DropKVNamespace(ctx, n.Name))
		},
		"scanKeys": func(ctx context.Context) error {
			n := space(ctx)
			for _, key := range []string{plain, odd} {
				if _, err := c.ana.KVSet(ctx, n.Name, key, nil, client.KVOptions{}); err != nil {
					return err
				}
			}
			found := map[string]bool{}
			for e, err := range c.ana.KVScan(ctx, n.Name, "") {
				if err != nil {
					return err
				}
				found[e.Key] = e.ExpiresAt != 0 && e.Version != ""
			}
			if len(found) != 2 || !found[plain] || !found[odd] {
				return fmt.Errorf("found %v", found)
			}
			return c.ana.DropKVNamespace(ctx, n.Name)
		},
	}
	for suffix, key := range map[string]string{"": plain, "64": odd} {
		whole := func(ctx context.Context) error {
			n := space(ctx)
			return errors.Join(c.useKey(ctx, n, key), c.ana.DropKVNamespace(ctx, n.Name))
		}
		for _, id := range []string{"getKey", "headKey", "putKey", "deleteKey", "patchKey"} {
			all[id+suffix] = whole
		}
	}
	return all
}

// useKey takes a key through its life with the key of a namespace.
func (c *calls) useKey(ctx context.Context, n wire.KVNamespace, key string) error {
	program := c.withToken(n.Credentials[0].Key)
	set, err := program.KVSet(ctx, n.Name, key, []byte("41"), client.KVOptions{TTL: time.Hour, IfAbsent: true})
	if err != nil {
		return err
	}
	if _, err := program.KVSet(ctx, n.Name, key, []byte("x"), client.KVOptions{IfAbsent: true}); !errors.Is(err, mayfly.Conflict) {
		return fmt.Errorf("a second set if absent: %w", err)
	}
	read, err := program.KVGet(ctx, n.Name, key)
	if err != nil || string(read.Value) != "41" || read.Version != set.Version || read.ExpiresAt != set.ExpiresAt {
		return fmt.Errorf("got %+v, set %+v: %w", read, set, err)
	}
	if sum, err := program.KVIncrement(ctx, n.Name, key, 1, client.KVOptions{}); err != nil || sum != 42 {
		return fmt.Errorf("sum %d: %w", sum, err)
	}
	touched, err := program.KVTouch(ctx, n.Name, key, client.KVOptions{TTL: 2 * time.Hour, IfPresent: true})
	if err != nil || touched.ExpiresAt <= read.ExpiresAt {
		return fmt.Errorf("touched %+v: %w", touched, err)
	}
	if seen, err := program.KVStat(ctx, n.Name, key); err != nil || seen.Version != touched.Version || seen.ExpiresAt != touched.ExpiresAt {
		return fmt.Errorf("seen %+v: %w", seen, err)
	}
	if err := program.KVDelete(ctx, n.Name, key, client.KVOptions{IfVersion: touched.Version}); err != nil {
		return err
	}
	if _, err := program.KVGet(ctx, n.Name, key); !errors.Is(err, mayfly.NotFound) {
		return fmt.Errorf("after the delete: %w", err)
	}
	return nil
}
