package wire

import "github.com/mayflyhq/mayfly"

// FeedCheck is a part of a verification of follow edges, of the counts of users and of
// those of posts.
type FeedCheck struct {
	Users       int      `json:"users" doc:"How many users were checked."`
	Posts       int      `json:"posts" doc:"How many posts were checked."`
	Differences []string `json:"differences" doc:"What is not as the rows say."`
	Next        string   `json:"next,omitempty" doc:"Where to go on; left out at the end."`
}

// References is what is left of a user.
type References struct {
	Count    int      `json:"count" doc:"Rows, items and objects that are the user's or name the user; 0 after an erasure."`
	Examples []string `json:"examples" doc:"The first of them."`
	Held     int      `json:"held" doc:"Items that stay because they are held; not in count."`
	Unowned  int      `json:"unowned" doc:"Objects of uploads that were never published, which may be the user's; the collector erases them. Not in count."`
}

// FeedImport is a part of the follow edges and posts of another product that move in.
type FeedImport struct {
	Reason string       `json:"reason" minLength:"1" maxLength:"1000"`
	Edges  []FollowEdge `json:"edges,omitempty" maxItems:"1000"`
	Posts  []OldPost    `json:"posts,omitempty" maxItems:"200"`
}

// FollowEdge says who follows whom.
type FollowEdge struct {
	Reader string `json:"reader" doc:"Who follows: a UUID, or ~ and the subject."`
	Author string `json:"author" doc:"Who is followed."`
}

// OldPost is a post that was published elsewhere.
type OldPost struct {
	Source   string         `json:"source" minLength:"1" maxLength:"200" doc:"Its name there. A post moves in once by author, name, time and lifetime."`
	Author   string         `json:"author" doc:"A UUID, or ~ and the subject."`
	Text     string         `json:"text,omitempty" maxLength:"4096"`
	BornAt   mayfly.Instant `json:"born_at" format:"date-time" doc:"When it was published there."`
	Lifetime string         `json:"lifetime,omitempty" doc:"From then; default: the server's."`
	ReplyTo  *mayfly.ID     `json:"reply_to,omitempty" format:"uuid" doc:"The post here that it replies to."`
	Quote    *mayfly.ID     `json:"quote,omitempty" format:"uuid"`
	RepostOf *mayfly.ID     `json:"repost_of,omitempty" format:"uuid"`
}

// FeedImported says what moved in.
type FeedImported struct {
	Edges []Moved `json:"edges" doc:"In the order of the request."`
	Posts []Moved `json:"posts" doc:"In the order of the request."`
}

// Moved says what became of an edge or post that is to move in.
type Moved struct {
	ID      *mayfly.ID `json:"id,omitempty" format:"uuid" doc:"The post here."`
	Again   bool       `json:"again,omitempty" doc:"It was here before."`
	Refused string     `json:"refused,omitempty" doc:"Why it is not here; nothing of it is."`
}
