// Package wire defines the JSON of the API, as Go types that the server and the
// client share. The tags of the fields are also the source of the OpenAPI
// document. Instants are RFC 3339 in UTC with milliseconds.
//
// It has no behaviour, and imports nothing but the vocabulary.
package wire
