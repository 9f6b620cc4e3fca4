package httpapi

import (
	"bytes"
	"errors"
	"io"
	"iter"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/engine/media"
	"github.com/mayflyhq/mayfly/product/story"
)

const formType = "multipart/form-data"

// publishStory is POST /v1/stories, in three forms: a form with the media in it,
// one medium as the whole body, or the name of an upload.
func publishStory(c *call) error {
	key, err := c.key()
	if err != nil {
		return err
	}
	typ, params, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if err != nil {
		return badPublishType(c.r.Header.Get("Content-Type"))
	}
	draft := story.Draft{Author: c.who.User, Key: key}
	switch {
	case typ == formType:
		err = c.draftOfForm(&draft, params["boundary"])
	case typ == jsonType:
		err = c.draftOfJSON(&draft)
	case slices.Contains(media.Types(), typ), typ == "application/octet-stream", typ == "image/heic", typ == "image/avif":
		err = c.draftOfBytes(&draft)
	default:
		err = badPublishType(typ)
	}
	if err != nil {
		return c.body.why(err)
	}
	s, err := c.stories.Publish(c.r.Context(), draft, func() mayfly.Instant { return c.clock.Read().Steady })
	if err != nil {
		return c.body.why(err)
	}
	c.metrics.mediaBytes.WithLabelValues("in").Add(float64(c.body.read))
	return c.published(s)
}

// published answers with a story that was just born, or was by the same key before.
func (c *call) published(s story.Story) error {
	c.now = c.clock.Read().Now // it was born after the request arrived
	status := http.StatusCreated
	if s.Again {
		status = http.StatusOK
	} else {
		c.metrics.births.Inc()
	}
	c.w.Header().Set("Location", c.o.Public+"/v1/stories/"+s.Item.ID.String())
	return c.deliver(status, c.show(s, mayfly.ViewerOf(c.who.User)))
}

func badPublishType(typ string) error {
	return mayfly.Errorf(mayfly.Unsupported, "a body of %.80q is not taken", typ).
		WithHint("send multipart/form-data with the parts story and media, application/json with an upload, or one medium with its own type")
}

func fill(d *story.Draft, in wire.NewStory) {
	d.Caption, d.Audience, d.Lifetime, d.Overlays = in.Caption, in.Audience, in.Lifetime, in.Overlays
}

func (c *call) draftOfJSON(d *story.Draft) error {
	text, err := io.ReadAll(io.LimitReader(c.body, storyBody+1))
	if err != nil {
		return err
	}
	if len(text) > storyBody {
		return tooLongStory()
	}
	var in wire.NewStory
	if err := readJSON(text, &in); err != nil {
		return err
	}
	if in.Upload == nil || in.Upload.IsZero() {
		return mayfly.Errorf(mayfly.Invalid, "a story without media").WithHint("send multipart/form-data with media, or name in upload what you have uploaded")
	}
	fill(d, in)
	d.Upload = *in.Upload
	return nil
}

func tooLongStory() error {
	return mayfly.Errorf(mayfly.TooLarge, "the story has more than %d bytes beside its media", storyBody).WithHint("use fewer or shorter overlays")
}

// draftOfBytes is one medium as the whole body, with the fields in the query.
func (c *call) draftOfBytes(d *story.Draft) error {
	q := c.r.URL.Query()
	for name := range q {
		if !slices.Contains([]string{"caption", "audience", "lifetime"}, name) {
			return mayfly.Errorf(mayfly.Invalid, "%.40q is no field of a story here", name).WithHint("caption, audience and lifetime may stand in the query; for overlays send a form")
		}
	}
	fill(d, wire.NewStory{Caption: q.Get("caption"), Audience: q.Get("audience"), Lifetime: q.Get("lifetime")})
	d.Media = func(yield func(io.Reader, error) bool) { yield(c.body, nil) }
	return nil
}

// partHeader bounds what stands between two parts.
const partHeader = 16 << 10

// draftOfForm reads the part story, if there is one; the media come when they
// are asked for, one after the other, straight from the connection.
func (c *call) draftOfForm(d *story.Draft, boundary string) error {
	if boundary == "" || len(boundary) > 70 {
		return mayfly.Errorf(mayfly.Invalid, "the form has no boundary").WithHint("let your HTTP library write the Content-Type")
	}
	form := &form{in: multipart.NewReader(c.body, boundary), body: c.body}
	first, err := form.next()
	if err != nil {
		return err
	}
	if first == nil {
		return noMedia()
	}
	if first.FormName() == "story" {
		text, err := io.ReadAll(io.LimitReader(first, storyBody+1))
		if err != nil {
			return badForm(err)
		}
		if len(text) > storyBody {
			return tooLongStory()
		}
		var in wire.NewStory
		if err := readJSON(bytes.TrimSpace(text), &in); err != nil {
			return err
		}
		if in.Upload != nil {
			return mayfly.Errorf(mayfly.Invalid, "an upload and media at once").WithHint("name an upload in a JSON body, or send media in a form")
		}
		fill(d, in)
		if first, err = form.next(); err != nil {
			return err
		}
	}
	if first == nil {
		return noMedia()
	}
	d.Media = form.media(first)
	return nil
}

func noMedia() error {
	return mayfly.Errorf(mayfly.Invalid, "a story without media").WithHint("send 1 to 10 parts named media behind the part story")
}

func badForm(err error) error {
	if kindOf(err) != 0 {
		return err
	}
	// The cause stays behind: an end that comes too early is the form's, not the picture's.
	return mayfly.Errorf(mayfly.Invalid, "the form cannot be read: %v", err).WithHint("send every part whole, and the end of the form")
}

// form is a multipart body that is read as it comes.
type form struct {
	in   *multipart.Reader
	body *body
}

// next is the next part; nil at the end of the form.
func (f *form) next() (*multipart.Part, error) {
	f.body.budget = partHeader
	defer func() { f.body.budget = -1 }()
	part, err := f.in.NextPart()
	if err == io.EOF { // bare: one that is wrapped is a form without its end
		_, err = io.Copy(io.Discard, f.body) // what is shorter than it said was not sent whole
		return nil, err
	}
	if err != nil {
		return nil, badForm(err)
	}
	return part, nil
}

// media are the parts from first on.
func (f *form) media(first *multipart.Part) iter.Seq2[io.Reader, error] {
	return func(yield func(io.Reader, error) bool) {
		for part, err := first, error(nil); part != nil || err != nil; part, err = f.next() {
			if err == nil && part.FormName() != "media" {
				err = mayfly.Errorf(mayfly.Invalid, "a part named %.40q where media are", part.FormName()).WithHint("the part story comes first, then parts named media")
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(partReader{part}, nil) {
				return
			}
		}
	}
}

// partReader gives the errors of a part their kind: a form without its end must
// not look like a broken picture.
type partReader struct{ part *multipart.Part }

func (p partReader) Read(b []byte) (int, error) {
	n, err := p.part.Read(b)
	if err != nil && !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = badForm(err)
	}
	return n, err
}
