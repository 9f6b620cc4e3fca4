package demo

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/client"
)

// people are everybody of the demonstration, as clients of the server. A stranger
// has an account and no relations.
type people struct {
	ana, ben, follower, stranger, anonymous, moderator person
	service                                            person
	operator                                           *client.Client // the moderator, at the listener for operators
}

// person asks once and hears what is said; acts as often as it takes.
type person struct {
	name string
	ask  *client.Client
	act  *client.Client
}

// newPeople makes clients with tokens that token makes.
func newPeople(api, admin string, token func(user, scope string) (string, error)) (*people, error) {
	p := &people{}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 128
	own := &http.Client{Transport: transport}
	for _, one := range []struct {
		is          *person
		name, scope string
	}{
		{&p.ana, "ana", "user"},
		{&p.ben, "ben", "user"},
		{&p.follower, "follower", "user"},
		{&p.stranger, "stranger", "user"},
		{&p.anonymous, "anonymous", ""},
		{&p.moderator, "moderator", "moderator"},
		{&p.service, "", "service"},
	} {
		t, err := token(one.name, one.scope)
		if err != nil {
			return nil, err
		}
		one.is.name = one.name
		if one.is.ask, err = client.New(api, client.Options{Token: t, HTTP: own, Retries: -1}); err != nil {
			return nil, err
		}
		if one.is.act, err = client.New(api, client.Options{Token: t, HTTP: own, Retries: 12, Longest: time.Second}); err != nil {
			return nil, err
		}
		if one.name == "moderator" {
			if p.operator, err = client.New(admin, client.Options{Token: t, HTTP: own, Retries: 12, Longest: time.Second}); err != nil {
				return nil, err
			}
		}
	}
	return p, nil
}

// relate makes ana and ben close friends, who follow each other, and gives both
// a follower.
func (p *people) relate(ctx context.Context) error {
	return errors.Join(
		p.ana.act.AddCloseFriend(ctx, "~ben"),
		p.ben.act.AddCloseFriend(ctx, "~ana"),
		p.service.act.AddFollower(ctx, "~ana", "~ben"),
		p.service.act.AddFollower(ctx, "~ben", "~ana"),
		p.service.act.AddFollower(ctx, "~ana", "~follower"),
		p.service.act.AddFollower(ctx, "~ben", "~follower"),
	)
}

// named is an author: ana and ben take turns.
func (p *people) named(author string) person {
	if author == p.ben.name {
		return p.ben
	}
	return p.ana
}

func (p *people) author(l *life) person { return p.named(l.author) }

func (p *people) friend(l *life) person {
	if l.author == p.ben.name {
		return p.ana
	}
	return p.ben
}

// onlooker is a viewer who requests a story repeatedly.
type onlooker struct {
	person
	permitted bool // while it serves
	always    bool // and after that
}

// around is everybody who asks for a story, by SPEC ST1 and C2.
func (p *people) around(l *life) []onlooker {
	everyone := l.story.Audience == mayfly.Everyone.String()
	return []onlooker{
		{p.author(l), true, true},
		{p.friend(l), true, false},
		{p.follower, l.story.Audience != mayfly.CloseFriends.String(), false},
		{p.stranger, everyone, false},
		{p.anonymous, everyone, false},
		{p.moderator, true, true},
	}
}

// noAnswer says that a call failed without any answer of a server.
func noAnswer(err error) bool {
	var answered *client.Error
	return errors.Is(err, mayfly.Unavailable) && !errors.As(err, &answered)
}
