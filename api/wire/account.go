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
