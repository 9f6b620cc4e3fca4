package wire

import "github.com/mayflyhq/mayfly"

// NewPost is a post to be published (F1).
type NewPost struct {
	Text     string     `json:"text,omitempty" maxLength:"4096" doc:"Plain text of at most 280 characters as a reader counts them, and 4 KiB; may be absent if it has media."`
	ReplyTo  *mayfly.ID `json:"reply_to,omitempty" format:"uuid" doc:"The post that it replies to."`
	Quote    *mayfly.ID `json:"quote,omitempty" format:"uuid" doc:"The post that it quotes."`
	Lifetime string     `json:"lifetime,omitempty" maxLength:"32" example:"24h" doc:"How long it is served, such as 10m, 24h or 30d; never if the operator allows it."`
	Upload   *mayfly.ID `json:"upload,omitempty" format:"uuid" doc:"A reserved upload whose media have arrived."`
}

// Post is a post as one viewer sees it.
type Post struct {
	ID        mayfly.ID       `json:"id" format:"uuid"`
	Short     string          `json:"short" doc:"The same id in 22 characters."`
	Kind      string          `json:"kind" enum:"post,reply,quote,repost"`
	Author    mayfly.UserID   `json:"author" format:"uuid"`
	Text      string          `json:"text,omitempty" doc:"Plain text as its author wrote it: show it as text, never as HTML."`
	Entities  []PostEntity    `json:"entities,omitempty" doc:"What the text names, in its order."`
	Media     []Medium        `json:"media,omitempty"`
	About     *mayfly.ID      `json:"about,omitempty" format:"uuid" doc:"What it replies to, quotes or reposts."`
	Root      *mayfly.ID      `json:"root,omitempty" format:"uuid" doc:"Of a reply: the first post of the thread."`
	Of        *Post           `json:"of,omitempty" doc:"The post that it quotes or reposts; absent of a quote if you may not see that, or it is gone."`
	Replies   int             `json:"replies" doc:"Counted a moment after a change, as are likes and reposts."`
	Likes     int             `json:"likes"`
	Reposts   int             `json:"reposts"`
	Liked     bool            `json:"liked,omitempty" doc:"You like it."`
	Reposted  bool            `json:"reposted,omitempty" doc:"You have reposted it."`
	BornAt    mayfly.Instant  `json:"born_at" format:"date-time"`
	ExpiresAt *mayfly.Instant `json:"expires_at,omitempty" format:"date-time" doc:"The deadline: from this instant on it is gone for everyone. Absent: it never expires."`
	Lifetime  mayfly.Lifetime `json:"lifetime" example:"never"`
	Held      bool            `json:"held,omitempty" doc:"Only moderators see it until they release it; shown to them, and to its author when it is published."`
}

// PostEntity is a part of a text that names something.
type PostEntity struct {
	Kind  string `json:"kind" enum:"mention,hashtag,link"`
	Start int    `json:"start" doc:"Where it begins in the text, in bytes of UTF-8."`
	End   int    `json:"end" doc:"Where it ends."`
	Name  string `json:"name" doc:"Of a mention the handle, of a hashtag its one spelling, of a link the link."`
}

// Posts is a page of posts, newest first.
type Posts struct {
	Posts []Post `json:"posts"`
	Next  string `json:"next,omitempty" doc:"Cursor of the next page; absent on the last. A page may be short without being the last."`
}

// Thread is a page of the thread around a post.
type Thread struct {
	Post      Post   `json:"post"`
	Ancestors []Post `json:"ancestors,omitempty" doc:"What it replies to, the first post of the thread first, then the nearest 19 at most; only on the first page. What you may not see is left out: then root or about name a post that is not here."`
	Replies   []Post `json:"replies" doc:"The replies to the post itself, oldest first."`
	Next      string `json:"next,omitempty" doc:"Cursor of the next page; absent on the last. A page may be short without being the last."`
}

// Home is a page of what the authors whom the caller follows have published, newest
// first.
type Home struct {
	Posts   []Post   `json:"posts"`
	Authors []Author `json:"authors" doc:"The authors of the posts, and of what they quote or repost, each once."`
	Next    string   `json:"next,omitempty" doc:"Cursor of the next page; absent on the last. A page is short without being the last only after thousands of entries that are not shown."`
	Partial bool     `json:"partial,omitempty" doc:"You follow more than 2,000 authors: those beyond, in the order of their ids, are left out."`
}

// Author is what is shown beside the posts of a user.
type Author struct {
	User   mayfly.UserID `json:"user" format:"uuid"`
	Handle string        `json:"handle,omitempty"`
	Name   string        `json:"display_name,omitempty"`
	Avatar string        `json:"avatar,omitempty" format:"uri-reference"`
}

// Likers is a page of users who like a post.
type Likers struct {
	Users []Liker `json:"users"`
	Next  string  `json:"next,omitempty" doc:"Cursor of the next page; absent on the last."`
}

// Liker is a user who likes a post.
type Liker struct {
	User mayfly.UserID  `json:"user" format:"uuid"`
	At   mayfly.Instant `json:"at" format:"date-time"`
}
