package wire

import "github.com/mayflyhq/mayfly"

// TokenRequest requests tokens: with a refresh token, or as a service for a user.
type TokenRequest struct {
	RefreshToken string `json:"refresh_token,omitempty" maxLength:"4096" doc:"Can be used once; the answer contains the next one. Using it again revokes all tokens that came from it."`
	User         string `json:"user,omitempty" maxLength:"256" doc:"For services: the user's UUID, or ~ and the subject that the home issuer uses."`
}

// Revocation names the tokens to revoke: a login, an access token, or both.
type Revocation struct {
	RefreshToken string `json:"refresh_token,omitempty" maxLength:"4096" doc:"Any refresh token of the login to sign out of."`
	AccessToken  string `json:"access_token,omitempty" maxLength:"8192" doc:"An access token, which is refused from now on."`
}

// TokenDenial asks to refuse an access token before its end: the token itself, or
// its id.
type TokenDenial struct {
	Token  string `json:"token,omitempty" maxLength:"8192" doc:"The access token."`
	ID     string `json:"id,omitempty" maxLength:"256" doc:"The claim jti of a token that is not at hand."`
	Issuer string `json:"issuer,omitempty" maxLength:"256" doc:"The issuer of the token with that id; default the server itself."`
	Reason string `json:"reason" minLength:"1" maxLength:"1000"`
}

// Tokens are an access token and the refresh token for the next one.
type Tokens struct {
	AccessToken  string        `json:"access_token"`
	TokenType    string        `json:"token_type" enum:"Bearer"`
	ExpiresIn    int           `json:"expires_in" doc:"Seconds until the access token expires."`
	RefreshToken string        `json:"refresh_token"`
	User         mayfly.UserID `json:"user" format:"uuid"`
}

// Users is a page of a list of users: close friends, or blocked users.
type Users struct {
	Users []mayfly.UserID `json:"users"`
	Next  string          `json:"next,omitempty"`
}

// Receipt reports what the erasure of an account has done so far (ST14).
type Receipt struct {
	User   mayfly.UserID    `json:"user" format:"uuid"`
	Done   bool             `json:"done" doc:"Whether everything except held items is erased."`
	Counts map[string]int64 `json:"counts" doc:"How much was erased: items, objects, and rows by table."`
	Held   int              `json:"held,omitempty" doc:"Items under hold, which are kept."`
}

// Profile is what a user says of themselves, and the counts of follow edges, which
// follow within seconds. A user who has said nothing has the id only.
type Profile struct {
	User      mayfly.UserID `json:"user" format:"uuid"`
	Handle    string        `json:"handle,omitempty" doc:"In a path: @ and the handle."`
	Name      string        `json:"display_name,omitempty"`
	Bio       string        `json:"bio,omitempty"`
	Avatar    string        `json:"avatar,omitempty" format:"uri-reference" doc:"An https URL, or where the picture is that the user sent."`
	Private   bool          `json:"private" doc:"Items for everyone are for followers, and followers are accepted one by one."`
	Following int           `json:"following"`
	Followers int           `json:"followers"`
}

// ProfileChange changes a profile. A field that is left out stays; an empty text takes
// it out.
type ProfileChange struct {
	Handle  *string `json:"handle,omitempty" maxLength:"30" doc:"3 to 30 of a-z, 0-9 and _; of one user only."`
	Name    *string `json:"display_name,omitempty" maxLength:"50"`
	Bio     *string `json:"bio,omitempty" maxLength:"300"`
	Avatar  *string `json:"avatar,omitempty" maxLength:"2048" doc:"An https URL. PUT /v1/me/avatar sends a picture instead."`
	Private *bool   `json:"private,omitempty"`
}

// Profiles is a page of users.
type Profiles struct {
	Users []Profile `json:"users"`
	Next  string    `json:"next,omitempty"`
}

// Follow is what a follow has become.
type Follow struct {
	State string `json:"state" enum:"requested,following" doc:"requested: the account is private and has not accepted yet."`
}

// Mute says what of a user is left out of lists.
type Mute struct {
	Posts   bool `json:"posts"`
	Reposts bool `json:"reposts"`
}

// Muted is a user of whom something is muted.
type Muted struct {
	User    mayfly.UserID `json:"user" format:"uuid"`
	Posts   bool          `json:"posts"`
	Reposts bool          `json:"reposts"`
}

// Mutes is a page of muted users.
type Mutes struct {
	Users []Muted `json:"users"`
	Next  string  `json:"next,omitempty"`
}
