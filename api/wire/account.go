package wire

import "github.com/mayflyhq/mayfly"

// TokenRequest asks for tokens: with a refresh token, or as a service for a user.
type TokenRequest struct {
	RefreshToken string `json:"refresh_token,omitempty" maxLength:"4096" doc:"Used once: the answer has the next one. An old one that comes again ends all of its family."`
	User         string `json:"user,omitempty" maxLength:"256" doc:"For services: the user's UUID, or ~subject of the home issuer."`
}

// Tokens are an access token and the refresh token that follows it.
type Tokens struct {
	AccessToken  string        `json:"access_token"`
	TokenType    string        `json:"token_type" enum:"Bearer"`
	ExpiresIn    int           `json:"expires_in" doc:"Seconds that the access token lasts."`
	RefreshToken string        `json:"refresh_token"`
	User         mayfly.UserID `json:"user" format:"uuid"`
}

// Users is a page of users: close friends, or blocks.
type Users struct {
	Users []mayfly.UserID `json:"users"`
	Next  string          `json:"next,omitempty"`
}

// Receipt says what the erasure of an account has done so far (ST14).
type Receipt struct {
	User   mayfly.UserID    `json:"user" format:"uuid"`
	Done   bool             `json:"done" doc:"Whether nothing is left but what is held."`
	Counts map[string]int64 `json:"counts" doc:"What was erased, by kind."`
	Held   int              `json:"held,omitempty" doc:"Items that are under hold and stay."`
}
