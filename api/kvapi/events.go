package kvapi

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/httpapi"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/product/kv"
)

const (
	eventBuffer = 1024      // events that wait for a slow client
	eventMemory = 128 << 10 // what they take
)

func (h *handlers) eventRoute() httpapi.Route {
	return httpapi.Route{
		Method: "GET", Pattern: "/v1/kv/{namespace}/events", ID: "followKeys", Summary: "Follow the keys that expire, as server-sent events",
		About: keyAbout + "The namespace must have been made with events. An event named expired comes at most a second after its key has expired, without a read of it; a key that was deleted or replaced before makes none. " +
			"Send the id of the last event in Last-Event-ID to go on after it, for 5 minutes.",
		Params:  []httpapi.Param{httpapi.Header("Last-Event-ID", "The id of the last event that you have got.")},
		Answers: httpapi.EventStream("Events with the data " + `{"key":"user:7","expired_at":"2026-01-31T18:00:00.000Z"}; key64 if the key is not UTF-8.`), Handle: h.events,
	}
}

// errEnded ends a stream whose namespace or key was removed, or whose client is gone.
var errEnded = errors.New("the stream has ended")

// events is GET …/events.
func (h *handlers) events(c *httpapi.Call) error {
	space, id, err := h.openAs(c, 1)
	if err != nil {
		return err
	}
	if err := onlyQuery(c); err != nil {
		return err
	}
	at := c.ReadClock()
	if at.Off {
		return at.Err
	}
	if !space.Settings().Events {
		return httpapi.Impossible(mayfly.Errorf(mayfly.Unsupported, "the namespace has no events").WithHint("make a namespace with events: it cannot be changed later"))
	}
	after := kv.AllUntil(at.Steady)
	if last := c.Request.Header.Values("Last-Event-ID"); len(last) > 0 {
		if after, err = readEventID(last[0], at.Steady); err != nil {
			return err
		}
	}
	if err := h.memory.take(space.Owner(), eventMemory); err != nil {
		return err
	}
	defer h.memory.give(space.Owner(), eventMemory)
	return c.Stream(eventBuffer, func(ctx context.Context, send func(httpapi.Event) bool) error {
		good := func(ctx context.Context) error {
			if errors.Is(space.StillOpen(ctx, id), mayfly.Unauthenticated) {
				return errEnded
			}
			return nil
		}
		err := space.Follow(ctx, c.ReadClock, after, good, func(due []kv.Expired) error {
			for _, d := range due {
				e, err := eventOf(d)
				if err != nil {
					return err
				}
				if !send(e) {
					return errEnded
				}
			}
			return nil
		})
		if errors.Is(err, errEnded) || errors.Is(err, context.Canceled) || errors.Is(err, mayfly.Limited) {
			return nil
		}
		return err
	})
}

func eventOf(d kv.Expired) (httpapi.Event, error) {
	data := wire.KVExpired{ExpiredAt: d.At}
	data.Key, data.Key64 = texts(d.Key)
	text, err := json.Marshal(data)
	return httpapi.Event{ID: eventID(d), Name: "expired", Data: string(text)}, err
}

// eventID returns the position of an event as a text.
func eventID(d kv.Expired) string {
	return strconv.FormatInt(int64(d.At), 10) + "-" + base64.RawURLEncoding.EncodeToString([]byte(d.Key))
}

// readEventID returns the position behind an event. Errors: Invalid, also of one that is
// too old to go on from.
func readEventID(text string, now mayfly.Instant) (kv.Expired, error) {
	number, encoded, _ := strings.Cut(text, "-")
	at, err := strconv.ParseInt(number, 10, 64)
	d := kv.Expired{At: mayfly.Instant(at)}
	if err == nil {
		d.Key, err = decode("Last-Event-ID", encoded)
	}
	switch {
	case err != nil || eventID(d) != text || len(d.Key) > kv.MaxKey || d.At > now:
		return d, mayfly.Errorf(mayfly.Invalid, "Last-Event-ID is %.40q", text).WithHint("send the id of the last event, unchanged, or none")
	case now.Sub(d.At) > kv.Remembered:
		return d, mayfly.Errorf(mayfly.Invalid, "the last event is older than %s, and events after it may be forgotten", kv.Remembered).WithHint("begin again without Last-Event-ID, and scan for what is there")
	}
	return d, nil
}
