// Package httpapi is in charge of the doors: it reads requests, finds out who
// asks, hands them to the products and writes what they answer, as /openapi.json
// says. routes.go is the table of every route; document, page and tests are made
// from it.
//
// It decides nothing about visibility: every item comes through the gate, and
// every refusal goes out by one function in the same bytes (ST2, I18). It reads
// the node's clock and never the system's. Only the admin files reach into the engine.
package httpapi
