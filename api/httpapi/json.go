package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
)

const jsonType = "application/json"

// json answers with v.
func (c *call) json(status int, v any) error {
	buf := c.buffers.take()
	defer c.buffers.give(buf)
	if err := encode(buf, v); err != nil {
		return err
	}
	c.sendJSON(status, buf.Bytes())
	return nil
}

func encode(buf *bytes.Buffer, v any) error {
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false) // it is no page: nosniff, and a type of its own
	if err := enc.Encode(v); err != nil {
		return mayfly.Errorf(mayfly.Corrupt, "an answer cannot be written: %w", err)
	}
	return nil
}

func (c *call) sendJSON(status int, body []byte) {
	h := c.w.Header()
	h.Set("Content-Type", jsonType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	c.send(status, body)
}

func (c *call) send(status int, body []byte) {
	c.w.WriteHeader(status)
	if _, err := c.w.Write(body); err != nil {
		c.gone = err
	}
}

func (c *call) noContent() error {
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// read reads the JSON body into v. An unknown field is refused, and so is
// anything behind the value.
func (c *call) read(v any) error {
	if err := wantType(c.r, jsonType); err != nil {
		return err
	}
	in, err := io.ReadAll(c.body)
	if err != nil {
		return c.body.why(err)
	}
	return readJSON(in, v)
}

func wantType(r *http.Request, want string) error {
	got := r.Header.Get("Content-Type")
	if typ, _, err := mime.ParseMediaType(got); err != nil || typ != want {
		return mayfly.Errorf(mayfly.Unsupported, "the body is %.80q", got).WithHint("send Content-Type: " + want)
	}
	return nil
}

// readJSON reads one object into v, a pointer to a shape.
func readJSON(in []byte, v any) error {
	if err := plainJSON(in, namesOf(reflect.TypeOf(v).Elem())); err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(in))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return badJSON(err)
	}
	return nil
}

func badJSON(err error) error {
	if known := (*mayfly.Error)(nil); errors.As(err, &known) { // an id, an instant, a lifetime: it says itself what is wrong
		return known
	}
	var field *json.UnmarshalTypeError
	if errors.As(err, &field) {
		return mayfly.Errorf(mayfly.Invalid, "%s cannot be %s", field.Field, field.Value).WithHint("/openapi.json says what it must be")
	}
	text := strings.TrimPrefix(err.Error(), "json: ")
	return mayfly.Errorf(mayfly.Invalid, "the JSON cannot be read: %s", text).WithHint("/openapi.json says what may be in it")
}

const problemType = wire.ProblemType
