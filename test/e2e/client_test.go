package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/client"
)

// Whatever the documents offer (O5), the client can ask, and the handlers answer as
// they say.
func TestTheClientAsksEveryDocumentedOperation(t *testing.T) {
	h := openNode(t, nodeConfig())
	defer h.close()
	c := newCalls(t, h)
	for _, op := range h.documents {
		reason, listed := notForClients()[op.id]
		call, known := c.calls()[op.id]
		switch {
		case known && listed:
			t.Errorf("%s is asked, and has a reason not to be", op.id)
		case listed:
			t.Logf("%s: not asked: %s", op.id, reason)
		case !known:
			t.Errorf("%s %s (%s): the client has nothing for it", op.method, op.path, op.id)
		default:
			if err := call(t.Context()); err != nil {
				t.Errorf("%s: %v", op.id, err)
			}
			if c.heard(op.id) == 0 {
				t.Errorf("%s: the client asked something else", op.id)
			}
		}
	}
	t.Logf("%d operations of the documents, %d asked through the client", len(h.documents), len(c.operations))
}

// notForClients are operations that are for browsers, proxies and machines that
// have clients of their own.
func notForClients() map[string]string {
	return map[string]string{
		"headMedium":   "for browsers and caches; a client that wants the bytes asks for them",
		"newPastePage": "a page", "readPaste": "a page, and for curl", "readPasteHead": "for browsers and caches", "readPasteCounted": "a form", "putPaste": "for curl -T",
		"readRawHead": "for browsers and caches", "downloadPaste": "for browsers", "downloadPasteHead": "for browsers", "downloadPasteCounted": "a form", "deletePaste": "for curl",
		"followKeys":  "for clients of server-sent events",
		"getDocument": "for makers of clients", "readDocs": "a page", "readHome": "a page",
		"isAlive": "for what restarts processes", "getReadiness": "for load balancers", "headReadiness": "for load balancers", "getMetrics": "for Prometheus",
		"listProfiles": "for go tool pprof", "getProfile": "for go tool pprof", "getCPUProfile": "for go tool pprof", "getTrace": "for go tool trace",
	}
}

// calls are the client's ways to ask, by operation.
type calls struct {
	*testing.T
	*testNode
	mu         sync.Mutex
	operations map[string]int

	ana, ben, service, operator *client.Client
	story                       wire.Story // ana's, for everyone
}

func newCalls(t *testing.T, h *testNode) *calls {
	t.Helper()
	c := &calls{T: t, testNode: h, operations: map[string]int{}}
	c.ana = c.client("ana", "user", false)
	c.ben = c.client("ben", "user", false)
	c.service = c.client("", "service", false)
	c.operator = c.client("support", "moderator", true)
	story, err := c.ana.Publish(t.Context(), client.Publication{
		Story: wire.NewStory{Caption: "sea", Audience: "everyone"}, Media: []client.Source{client.Bytes("sea.png", picture("sea", 0))},
	})
	if err != nil {
		t.Fatal(err)
	}
	c.story = story
	return c
}

// client returns a client whose requests go to a handler without a network.
func (c *calls) client(user, scope string, admin bool) *client.Client {
	c.T.Helper()
	bearer, err := c.bearer(user, scope)
	if err != nil {
		c.T.Fatal(err)
	}
	handler := transport{c, admin}
	made, err := client.New("http://mayfly.test", client.Options{Token: bearer, HTTP: &http.Client{Transport: handler}, Retries: -1})
	if err != nil {
		c.T.Fatal(err)
	}
	return made
}

// withToken is a client with a token, or a key of a namespace.
func (c *calls) withToken(token string) *client.Client {
	c.T.Helper()
	made, err := client.New("http://mayfly.test", client.Options{Token: token, HTTP: &http.Client{Transport: transport{c, false}}, Retries: -1})
	if err != nil {
		c.T.Fatal(err)
	}
	return made
}

// transport passes requests to a handler, and notes which operation each was.
type transport struct {
	calls *calls
	admin bool
}

func (d transport) RoundTrip(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		var err error
		if body, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
	}
	r := request{method: req.Method, target: req.URL.RequestURI(), header: req.Header, body: body, admin: d.admin}
	if op, ok := d.calls.find(r); ok {
		d.calls.mu.Lock()
		d.calls.operations[op.id]++
		d.calls.mu.Unlock()
	}
	a, err := d.calls.ask(r)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: a.status, Status: http.StatusText(a.status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: a.header, Body: io.NopCloser(bytes.NewReader(a.body)), ContentLength: int64(len(a.body)), Request: req,
	}, nil
}

func (c *calls) heard(id string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.operations[id]
}

// all reads an iterator to its end.
func all[T any](seq iter.Seq2[T, error]) error {
	for _, err := range seq {
		if err != nil {
			return err
		}
	}
	return nil
}

// refusedAs says that err must be of a kind: the operation was asked, and what
// it asks for is not there.
func refusedAs(err error, kind mayfly.Kind) error {
	if errors.Is(err, kind) {
		return nil
	}
	return err
}

// calls are all of them. Each stands for itself, in whatever order.
func (c *calls) calls() map[string]func(context.Context) error {
	id, ana, ben := c.story.ID, userNamed("ana").String(), userNamed("ben").String()
	last := func(_ any, err error) error { return err }
	source := client.Bytes("hill.png", picture("hill", 0))
	post := func(ctx context.Context) (wire.Post, error) {
		return c.ana.CreatePost(ctx, wire.NewPost{Text: "sea"}, "", source)
	}
	ofPost := func(do func(ctx context.Context, id mayfly.ID) error) func(context.Context) error {
		return func(ctx context.Context) error {
			p, err := post(ctx)
			if err != nil {
				return err
			}
			return do(ctx, p.ID)
		}
	}
	paste := func(ctx context.Context, p wire.NewPaste) wire.Paste {
		p.Content = "words"
		made, err := c.ana.CreateTextPaste(ctx, p, "")
		if err != nil {
			c.T.Fatal(err)
		}
		return made
	}
	wants := func(r io.ReadCloser, err error) error {
		if err != nil {
			return err
		}
		got, err := io.ReadAll(r)
		if err == nil && string(got) != "words" {
			err = fmt.Errorf("read %q", got)
		}
		return errors.Join(err, r.Close())
	}
	asks := map[string]func(context.Context) error{
		"createPaste": func(ctx context.Context) error {
			made, err := c.ana.CreatePaste(ctx, client.NewPaste{Content: strings.NewReader("words"), Title: "notes", Lifetime: "2h", Reads: 3, Private: true, Password: "p", Language: "go"})
			if err == nil && (made.DeleteToken == "" || made.Title != "notes" || made.Reads != 3 || !made.Private || !made.Locked || made.Language != "go" || made.Lifetime.String() != "2h") {
				err = fmt.Errorf("%+v", made)
			}
			return err
		},
		"createPasteJSON": func(ctx context.Context) error { paste(ctx, wire.NewPaste{}); return nil },
		"describePaste": func(ctx context.Context) error {
			return last(c.ana.Paste(ctx, paste(ctx, wire.NewPaste{Password: "p"}).ID, "p"))
		},
		"readRaw": func(ctx context.Context) error {
			return wants(c.ben.ReadPaste(ctx, paste(ctx, wire.NewPaste{}).ID, "", false))
		},
		"readRawCounted": func(ctx context.Context) error {
			return wants(c.ben.ReadPaste(ctx, paste(ctx, wire.NewPaste{Burn: true, Password: "p"}).ID, "p", true))
		},
		"deletePasteByID": func(ctx context.Context) error {
			made := paste(ctx, wire.NewPaste{})
			return c.ben.DeletePaste(ctx, made.ID, made.DeleteToken)
		},
		"listPastes": func(ctx context.Context) error { return all(c.ana.Pastes(ctx)) },
		"getToken": func(ctx context.Context) error {
			tokens, err := c.service.TokenFor(ctx, ana)
			if err != nil {
				return err
			}
			return last(c.ana.RefreshTokens(ctx, tokens.RefreshToken))
		},
		"revokeToken": func(ctx context.Context) error {
			tokens, err := c.service.TokenFor(ctx, ana)
			if err != nil {
				return err
			}
			if err := c.ana.SignOut(ctx, tokens.RefreshToken); err != nil {
				return err
			}
			if err := refusedAs(last(c.ana.RefreshTokens(ctx, tokens.RefreshToken)), mayfly.Unauthenticated); err != nil {
				return err
			}
			return c.ends(ctx, func(token string) error { return c.ana.Revoke(ctx, token) })
		},
		"preflight":     func(ctx context.Context) error { return last(c.ana.Preflight(ctx)) },
		"reserveUpload": func(ctx context.Context) error { return last(c.ana.Reserve(ctx, source)) },
		"getUpload": func(ctx context.Context) error {
			u, err := c.ana.Reserve(ctx, source)
			if err != nil {
				return err
			}
			return last(c.ana.Upload(ctx, u.ID))
		},
		"putMedium": func(ctx context.Context) error {
			u, err := c.ana.Reserve(ctx, source)
			if err != nil {
				return err
			}
			if _, err := c.ana.Put(ctx, u.ID, 0, source, nil); err != nil {
				return err
			}
			return last(c.ana.Publish(ctx, client.Publication{Story: wire.NewStory{Upload: &u.ID}}))
		},
		"publishStory": func(ctx context.Context) error {
			return last(c.ben.Publish(ctx, client.Publication{Story: wire.NewStory{Audience: "everyone"}, Media: []client.Source{source}}))
		},
		"openStory": func(ctx context.Context) error { return last(c.ben.Story(ctx, id)) },
		"viewStory": func(ctx context.Context) error { return c.ben.View(ctx, id) },
		"deleteStory": func(ctx context.Context) error {
			s, err := c.ben.Publish(ctx, client.Publication{Media: []client.Source{source}})
			if err != nil {
				return err
			}
			return c.ben.Delete(ctx, s.ID)
		},
		"listViewers": func(ctx context.Context) error { return all(c.ana.Viewers(ctx, id, new(int))) },
		"reshareStory": func(ctx context.Context) error {
			return last(c.ana.Reshare(ctx, id, wire.Reshare{Audience: "followers"}, ""))
		},
		"getRing":     func(ctx context.Context) error { return last(c.ben.Ring(ctx, ana)) },
		"getTray":     func(ctx context.Context) error { return last(c.ben.Tray(ctx)) },
		"listArchive": func(ctx context.Context) error { return all(c.ana.Archive(ctx, client.Period{})) },
		"getMedium": func(ctx context.Context) error {
			s, err := c.ben.Story(ctx, id)
			if err != nil {
				return err
			}
			return c.ben.Download(ctx, s.Media[0], io.Discard, nil)
		},
		"listCloseFriends":  func(ctx context.Context) error { return all(c.ana.CloseFriends(ctx)) },
		"addCloseFriend":    func(ctx context.Context) error { return c.ana.AddCloseFriend(ctx, ben) },
		"removeCloseFriend": func(ctx context.Context) error { return c.ana.RemoveCloseFriend(ctx, ben) },
		"listBlocks":        func(ctx context.Context) error { return all(c.ben.Blocks(ctx)) },
		"addBlock":          func(ctx context.Context) error { return c.ben.Block(ctx, ana) },
		"removeBlock":       func(ctx context.Context) error { return c.ben.Unblock(ctx, ana) },
		"addFollower":       func(ctx context.Context) error { return c.service.AddFollower(ctx, ana, ben) },
		"removeFollower":    func(ctx context.Context) error { return c.service.RemoveFollower(ctx, ana, ben) },

		"createPost":   func(ctx context.Context) error { return last(post(ctx)) },
		"getPost":      ofPost(func(ctx context.Context, id mayfly.ID) error { return last(c.ben.Post(ctx, id)) }),
		"deletePost":   ofPost(func(ctx context.Context, id mayfly.ID) error { return c.ana.DeletePost(ctx, id) }),
		"getThread":    ofPost(func(ctx context.Context, id mayfly.ID) error { return all(c.ben.Thread(ctx, id, nil)) }),
		"likePost":     ofPost(func(ctx context.Context, id mayfly.ID) error { return c.ana.Like(ctx, id, true) }),
		"unlikePost":   ofPost(func(ctx context.Context, id mayfly.ID) error { return c.ana.Like(ctx, id, false) }),
		"listLikes":    ofPost(func(ctx context.Context, id mayfly.ID) error { return all(c.ana.Likers(ctx, id)) }),
		"repostPost":   ofPost(func(ctx context.Context, id mayfly.ID) error { return last(c.ana.Repost(ctx, id)) }),
		"unrepostPost": ofPost(func(ctx context.Context, id mayfly.ID) error { return c.ana.Unrepost(ctx, id) }),
		"listPosts":    func(ctx context.Context) error { return all(c.ana.PostsOf(ctx, ana)) },
		"getMyHome":    func(ctx context.Context) error { return last(c.ben.Home(ctx, "", 5)) },

		"follow":          func(ctx context.Context) error { return last(c.ben.Follow(ctx, userNamed("stranger").String())) }, // ben may block ana by then
		"unfollow":        func(ctx context.Context) error { return c.ben.Unfollow(ctx, ana) },
		"listMyFollowing": func(ctx context.Context) error { return all(c.ben.MyFollowing(ctx)) },
		"listFollowing":   func(ctx context.Context) error { return all(c.ben.Following(ctx, ana)) },
		"listFollowers":   func(ctx context.Context) error { return all(c.ben.Followers(ctx, ana)) },
		"dropFollower":    func(ctx context.Context) error { return c.ana.DropFollower(ctx, ben) },
		"listFollowRequests": func(ctx context.Context) error {
			return all(c.ana.FollowRequests(ctx))
		},
		"acceptFollowRequest": func(ctx context.Context) error {
			return refusedAs(c.ana.AcceptFollow(ctx, userNamed("stranger").String()), mayfly.NotFound)
		},
		"declineFollowRequest": func(ctx context.Context) error { return c.ana.DeclineFollow(ctx, userNamed("stranger").String()) },
		"mute":                 func(ctx context.Context) error { return c.ben.Mute(ctx, ana, wire.Mute{Reposts: true}) },
		"unmute":               func(ctx context.Context) error { return c.ben.Unmute(ctx, ana) },
		"listMutes":            func(ctx context.Context) error { return all(c.ben.Mutes(ctx)) },
		"getUser":              func(ctx context.Context) error { return last(c.ben.Profile(ctx, ana)) },
		"getMyProfile":         func(ctx context.Context) error { return last(c.ana.MyProfile(ctx)) },
		"changeMyProfile": func(ctx context.Context) error {
			name := "Ana"
			return last(c.ana.ChangeProfile(ctx, wire.ProfileChange{Name: &name}))
		},

		"setMyAvatar": func(ctx context.Context) error {
			return last(c.ana.SetAvatar(ctx, client.Bytes("ana.jpg", []byte(badJPEG(400, 300)))))
		},
		"getAvatar": func(ctx context.Context) error {
			p, err := c.ana.SetAvatar(ctx, client.Bytes("ana.jpg", []byte(badJPEG(400, 300))))
			if err != nil {
				return err
			}
			r, err := c.ben.OpenMedium(ctx, p.Avatar, 0)
			if err != nil {
				return err
			}
			return errors.Join(last(io.Copy(io.Discard, r)), r.Close())
		},

		"explain": func(ctx context.Context) error { return last(c.operator.Explain(ctx, id, ben, 0)) },
		"hold":    func(ctx context.Context) error { return c.operator.Hold(ctx, c.another(ctx), "a test") },
		"release": func(ctx context.Context) error { return c.operator.Release(ctx, id, "a test") },
		"restore": func(ctx context.Context) error { // it still serves
			until := c.now().Add(time.Hour)
			return refusedAs(last(c.operator.Restore(ctx, wire.RestoreRequest{ID: &id, Until: &until, Reason: "a test"})), mayfly.Conflict)
		},
		"isReady":         func(ctx context.Context) error { return last(c.operator.Ready(ctx, "api")) },
		"listWalks":       func(ctx context.Context) error { return last(c.admin().Walks(ctx)) },
		"listHeld":        func(ctx context.Context) error { return all(c.admin().Held(ctx)) },
		"listPurges":      func(ctx context.Context) error { return all(c.admin().Purges(ctx)) },
		"listDeadLetters": func(ctx context.Context) error { return all(c.admin().DeadLetters(ctx)) },
		"retryDeadLetter": func(ctx context.Context) error {
			return refusedAs(c.admin().RetryDeadLetter(ctx, id, "archive", "a test"), mayfly.NotFound)
		},
		"dropDeadLetter": func(ctx context.Context) error {
			return refusedAs(c.admin().DropDeadLetter(ctx, id, "archive", "a test"), mayfly.NotFound)
		},
		"listRuns":       func(ctx context.Context) error { return all(c.admin().Runs(ctx, 0)) },
		"findOrphans":    func(ctx context.Context) error { return last(c.admin().Orphans(ctx)) },
		"eraseOrphans":   func(ctx context.Context) error { return last(c.admin().EraseOrphans(ctx, "a test")) },
		"getScrub":       func(ctx context.Context) error { return last(c.admin().Scrub(ctx)) },
		"listAudit":      func(ctx context.Context) error { return all(c.admin().Audit(ctx)) },
		"verifyAudit":    func(ctx context.Context) error { return last(c.admin().VerifyAudit(ctx, nil)) },
		"checkFeed":      func(ctx context.Context) error { return all(c.admin().CheckFeed(ctx)) },
		"findReferences": func(ctx context.Context) error { return last(c.admin().References(ctx, "~stranger")) },
		"importFeed": func(ctx context.Context) error {
			return last(c.admin().ImportFeed(ctx, wire.FeedImport{Edges: []wire.FollowEdge{{Reader: "~old", Author: "~older"}}, Reason: "a test"}))
		},
		"getKVStatus": func(ctx context.Context) error { return last(c.admin().KVStatus(ctx)) },
		"addKVKey": func(ctx context.Context) error {
			return refusedAs(last(c.admin().AddKVKey(ctx, "nothing", "a test")), mayfly.NotFound)
		},
		"removeKVKey": func(ctx context.Context) error {
			return refusedAs(c.admin().RemoveKVKey(ctx, "nothing", "AAAAAAAA", "a test"), mayfly.NotFound)
		},
		"denyToken": func(ctx context.Context) error {
			return c.ends(ctx, func(token string) error {
				return c.admin().DenyToken(ctx, wire.TokenDenial{Token: token, Reason: "a test"})
			})
		},
		"eraseAccount": func(ctx context.Context) error {
			return last(c.admin().EraseAccount(ctx, userNamed("stranger").String(), "a test"))
		},
	}
	maps.Copy(asks, c.kvCalls())
	return asks
}

func (c *calls) admin() *client.Client { return c.client("", "admin", true) }

// ends reports an error if ben's new token is refused before do, or accepted after.
func (c *calls) ends(ctx context.Context, do func(token string) error) error {
	token, err := c.bearer("ben", "user")
	if err != nil {
		return err
	}
	ben, err := client.New("http://mayfly.test", client.Options{Token: token, HTTP: &http.Client{Transport: transport{c, false}}, Retries: -1})
	if err != nil {
		return err
	}
	if _, err := ben.Preflight(ctx); err != nil {
		return err
	}
	if err := do(token); err != nil {
		return err
	}
	if _, err := ben.Preflight(ctx); !errors.Is(err, mayfly.Unauthenticated) {
		return fmt.Errorf("the token is still accepted: %w", err)
	}
	return nil
}

// another is a story of ben's that is for this call alone.
func (c *calls) another(ctx context.Context) mayfly.ID {
	s, err := c.ben.Publish(ctx, client.Publication{Media: []client.Source{client.Bytes("lake.png", picture("lake", 0))}})
	if err != nil {
		c.T.Error(err)
	}
	return s.ID
}
